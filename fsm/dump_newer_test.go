package fsm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// S72: a dump of a newer build is told from a damaged one, by its beginning alone.
func TestS72_ADumpOfANewerBuildIsNotDamaged(t *testing.T) {
	for name, tc := range map[string]struct {
		header *fsmpb.Header
		newer  bool
	}{
		"of this build":   {&fsmpb.Header{Format: dumpFormat, FeatureLevel: MaxFeatureLevel}, false},
		"a later format":  {&fsmpb.Header{Format: dumpFormat + 1}, true},
		"a later level":   {&fsmpb.Header{Format: dumpFormat, FeatureLevel: MaxFeatureLevel + 1}, true},
		"an older format": {&fsmpb.Header{}, false},
	} {
		content := dumpFile(t, tc.header)
		for range 2 {
			require.Equal(t, tc.newer, CheckDump(bytes.NewReader(content)) != nil, name)
			_, _, err := ReadDump(bytes.NewReader(withChecksum(content)))
			if tc.newer {
				require.ErrorIs(t, err, ErrNewer, name)
				require.ErrorIs(t, CheckDump(bytes.NewReader(content)), ErrNewer, name)
			} else {
				require.NotErrorIs(t, err, ErrNewer, name)
			}
			for end := range content {
				require.NoError(t, CheckDump(bytes.NewReader(content[:min(end, 9)])), "what was cut is damaged")
			}
		}
	}
}
