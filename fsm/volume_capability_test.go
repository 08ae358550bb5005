package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func TestReadOnlyMode(t *testing.T) {
	for mode := range fsmpb.AccessMode_name {
		want := mode == int32(readOnly) || mode == int32(fsmpb.AccessMode_ACCESS_MODE_MULTI_NODE_READER_ONLY)
		require.Equal(t, want, ReadOnlyMode(fsmpb.AccessMode(mode)), "%d", mode)
	}
}

func TestCombines(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b Capability
		want bool
	}{
		"equal":                {Capability{FSType: ext4}, Capability{FSType: ext4}, true},
		"another mode":         {Capability{Mode: writer}, Capability{Mode: readOnly}, true},
		"one is left open":     {Capability{FSType: ext4}, Capability{}, true},
		"the other":            {Capability{}, Capability{FSType: "xfs"}, true},
		"two filesystems":      {Capability{FSType: ext4}, Capability{FSType: "xfs"}, false},
		"raw and a filesystem": {Capability{Block: true}, Capability{FSType: ext4}, false},
		"raw and open":         {Capability{Block: true}, Capability{}, false},
		"raw":                  {Capability{Block: true}, Capability{Block: true}, true},
	} {
		require.Equal(t, tc.want, tc.a.Combines(tc.b), name)
	}
}
