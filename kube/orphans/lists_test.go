package orphans

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhichVolumesAnUnreadableOneMayHave(t *testing.T) {
	bad := errors.New("cut short")
	for name, tc := range map[string]struct {
		unreadable string
		leak       string
		holds      bool
	}{
		"none is unreadable":          {"", "pvc-1", false},
		"its own":                     {"pvc-1", "pvc-1", true},
		"another leak's":              {"pvc-2", "pvc-1", false},
		"one that is there":           {"pvc-3", "pvc-1", false},
		"nobody's, which may be any":  {"static", "pvc-1", true},
		"one with a hash for a name":  {"0123456789abcdef", "pvc-1", true},
		"a volume without a name yet": {"static", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &Listed{}
			if tc.unreadable != "" {
				l.Unreadable = []Unreadable{{Name: "pvc-3", Why: bad}, {Name: tc.unreadable, Why: bad}}
			}
			for range 2 {
				require.Equal(t, tc.holds, l.Holds(tc.leak, []string{"pvc-1", "pvc-2"}, []string{"pvc-3"}) != "")
			}
		})
	}
}
