package isolated

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyALackOfMemoryIsExplainedByALimit(t *testing.T) {
	const lack = "\nfatal error: runtime: out of memory\n\ngoroutine 1\n"
	const other = "\nfatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1\n"
	for name, tc := range map[string]struct {
		limited bool
		log     string
		found   bool
	}{
		"nothing":                    {false, "\nall is well\n", false},
		"a lack without a limit":     {false, lack, true},
		"a lack under a limit":       {true, lack, false},
		"another end under a limit":  {true, other, true},
		"another end behind a lack":  {true, lack + other, true},
		"a lack behind another lack": {true, lack + lack, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, found := (&Member{limited: tc.limited}).firstDeath(tc.log, "\nfatal error: ")
			require.Equal(t, tc.found, found)
		})
	}
}
