package reservoir

import "time"

// retireMargin is the time between a backend's planned retirement and its guard window. In that time, replacedPart
// scans replace all backends by tenths, and two more scans replace late ones.
const retireMargin = (replacedPart + 2) * scanEvery

// retirementCalendar spreads the retirements of backends. So backends that were dialled together are not replaced
// together. retirementCalendar divides the time since New into intervals of equal width, called hours, and assigns each
// hour to one backend. The Reservoir's mutex guards a retirementCalendar.
type retirementCalendar struct {
	width time.Duration
	taken map[int64]struct{}
}

func newRetirementCalendar(width time.Duration) retirementCalendar {
	return retirementCalendar{width: width, taken: make(map[int64]struct{})}
}

// bookHour assigns the latest free hour (interval of the retirement calendar) that is not after latest.
// Config.Validate ensures that there are as many earlier hours as backends.
func (c *retirementCalendar) bookHour(latest time.Duration) (hour int64) {
	hour = int64(latest / c.width)
	for {
		if _, taken := c.taken[hour]; !taken {
			c.taken[hour] = struct{}{}
			return hour
		}
		hour--
	}
}

func (c *retirementCalendar) freeHour(hour int64) { delete(c.taken, hour) }

func (c *retirementCalendar) hourStart(hour int64) time.Duration {
	return time.Duration(hour) * c.width
}
