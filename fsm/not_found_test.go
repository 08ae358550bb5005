package fsm

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// CSI-GEN-Size-05: what is sent stays within its limit.
func TestTruncate(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"a short text stays":        {"abc", 3, "abc"},
		"a long one is cut":         {"abcdefgh", 6, "abc..."},
		"a character is not broken": {strings.Repeat("é", 5), 8, "éé..."},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tc.want, Truncate(tc.text, tc.limit))
		})
	}
	require.Equal(t, `volume "`+strings.Repeat("x", 61)+`..." is not known`, UnknownVolume(VolumeID(strings.Repeat("x", 65))).Message)
	require.Equal(t, NotFound, UnknownSnapshot("x").Reason)
	require.Equal(t, `group snapshot "x" is not known`, UnknownGroupSnapshot("x").Message)
}
