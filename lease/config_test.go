package lease

import "testing"

// Problems come in one order, so that two starts of the same configuration print the same text.
func TestProblemsHaveOneOrder(t *testing.T) {
	t.Parallel()
	c := Defaults()
	c.Table, c.RateTable, c.Burst = "x", "of rates", 0
	first := c.Validate()
	if first == nil {
		t.Fatal("names that DynamoDB refuses are accepted")
	}
	for range 100 {
		if again := c.Validate(); again.Error() != first.Error() {
			t.Fatalf("first\n%v\nthen\n%v", first, again)
		}
	}
}
