//go:build !race

package dialect

// pumpings are how often TestDeepTexts repeats a term.
var pumpings = []int{1000, 1999, 3900, 30_000}

// longList is how many rows TestLongListsAreRead lists.
const longList = 20_000
