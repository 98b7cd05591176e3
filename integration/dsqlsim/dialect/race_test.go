//go:build race

package dialect

// pumpings are how often TestDeepTexts repeats a term: the race detector makes each
// parse several times as long.
var pumpings = []int{1000, 30_000}

// longList is how many rows TestLongListsAreRead lists.
const longList = 2000
