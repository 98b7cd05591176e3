package settings

import "testing"

// A value of DateStyle that says a half leaves the other, as at a server.
func TestDateStyle(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{"ISO, MDY", "ISO", "ISO, MDY"}, {"SQL, DMY", "ISO", "ISO, DMY"}, {"ISO, MDY", "dmy", "ISO, DMY"},
		{"", "german, dmy", "German, DMY"}, {"ISO, MDY", "German", "German, DMY"}, {"ISO, DMY", "MDY, German", "German, MDY"},
		{"", "postgres european", "Postgres, DMY"}, {"", "'sql', 'us'", "SQL, MDY"}, {"SQL, YMD", "postgresql", "Postgres, YMD"},
		{"SQL", "DMY", "SQL, DMY"}, {"DMY", "SQL", "SQL, DMY"}, {"", "SQL", "SQL"}, {"", "noneuropean", "MDY"}, {"", "", ""},
		{"SQL, DMY", "default", "German, YMD"}, {"SQL, DMY", "default, iso", "ISO, YMD"}, {"SQL, DMY", "mdy, default", "German, MDY"},
	} {
		reset := DateStyle{"German", "YMD"}
		if got := MergeDateStyle(MergeDateStyle(DateStyle{}, c[0], DateStyle{}), c[1], reset).String(); got != c[2] {
			t.Errorf("%q, then %q: %q, want %q", c[0], c[1], got, c[2])
		}
	}
}
