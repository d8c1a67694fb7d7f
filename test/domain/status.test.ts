import { expect, test } from 'vitest'
import { type DeliveryState, type EventStatus, eventStatus } from '../../src/domain/status.ts'

const table: [DeliveryState[], EventStatus][] = [
  [['waiting'], 'PENDING'],
  [['leased', 'waiting'], 'PROCESSING'],
  [['leased', 'buried'], 'PROCESSING'],
  [['waiting', 'completed', 'buried'], 'PENDING'],
  [[], 'COMPLETED'],
  [['completed'], 'COMPLETED'],
  [['completed', 'cancelled'], 'COMPLETED'],
  [['expired'], 'EXPIRED'],
  [['expired', 'cancelled'], 'EXPIRED'],
  [['buried'], 'FAILED'],
  [['buried', 'expired'], 'FAILED'],
  [['buried', 'cancelled'], 'FAILED'],
  [['completed', 'buried'], 'COMPLETED_WITH_ERRORS'],
  [['completed', 'expired'], 'COMPLETED_WITH_ERRORS'],
  [['finalized'], 'COMPLETED_WITH_ERRORS'],
  [['finalized', 'buried'], 'COMPLETED_WITH_ERRORS'],
  [['cancelled', 'cancelled'], 'CANCELLED'],
]

test.each(table)('deliveries %j make the event %s', (states, status) => {
  expect(eventStatus({ states, unwanted: false })).toBe(status)
})

test('an event that had to be wanted and was not is FAILED', () => {
  expect(eventStatus({ states: [], unwanted: true })).toBe('FAILED')
})
