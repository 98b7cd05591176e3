package trip

import "testing"

// A connection carries nothing between the beginning of a round trip and its end.
func TestTrips(t *testing.T) {
	t.Parallel()
	var trips RoundTrips
	for range 3 {
		if err := trips.Err(); err != nil {
			t.Fatalf("between two round trips: %v", err)
		}
		if err := trips.Begin(); err != nil {
			t.Fatalf("Begin: %v", err)
		}
		if trips.Err() != ErrUnended || trips.Begin() != ErrUnended {
			t.Fatal("a connection is used under a round trip that has not ended")
		}
		trips.End()
	}
	trips.Begin()
	for range 3 {
		if trips.Err() != ErrUnended || trips.Begin() != ErrUnended {
			t.Fatal("a round trip that was broken off is forgotten")
		}
	}
}
