package reservoir

import "time"

// retireMargin is the time between a backend's planned retirement and its guard window. It is the
// scans that replace all backends by tenths, and two more for late ones.
const retireMargin = (replacedPart + 2) * scanEvery

// calendar spreads the retirements of backends, so that replacing them takes one dial at a time
// even if they were dialled together. It divides the time since New into hours of equal width, and
// assigns each hour to one backend. The Reservoir's mutex guards it.
type calendar struct {
	width time.Duration
	taken map[int64]struct{}
}

func newCalendar(width time.Duration) calendar {
	return calendar{width: width, taken: make(map[int64]struct{})}
}

// book assigns the latest free hour that is not after latest. Config.Validate leaves room for as
// many earlier hours as there are backends.
func (c *calendar) book(latest time.Duration) (hour int64) {
	hour = int64(latest / c.width)
	for {
		if _, taken := c.taken[hour]; !taken {
			c.taken[hour] = struct{}{}
			return hour
		}
		hour--
	}
}

func (c *calendar) free(hour int64) { delete(c.taken, hour) }

func (c *calendar) time(hour int64) time.Duration { return time.Duration(hour) * c.width }
