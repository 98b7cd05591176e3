package reservoir

import "time"

// retireMargin is how long before the guard window the calendar wants a backend
// retired: as many scans as it takes to replace all of them by tenths, and two,
// so that a late one still finds it outside the window.
const retireMargin = (replacedPart + 2) * scanEvery

// calendar spreads the retirements of backends, so that replacing them takes
// one dial at a time however many were dialled together. An hour is a time
// since the reservoir was made, in steps of width, and is given out once.
// The Reservoir's mutex guards it.
type calendar struct {
	width time.Duration
	taken map[int64]struct{}
}

func newCalendar(width time.Duration) calendar {
	return calendar{width: width, taken: make(map[int64]struct{})}
}

// book takes the latest free hour that is not after latest. As many hours as
// there are backends may lie before it: Config.Validate leaves room for them.
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
