package fsm

import (
	"strings"
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

// The longest fingerprint of mount flags that can be is taken, as are the modes and filesystems that are served.
func TestCapabilitiesThatNoVolumeHas(t *testing.T) {
	for name, tc := range map[string]struct {
		c    Capability
		want Reason
	}{
		"the longest flags":           {Capability{Mode: writer, Flags: strings.Repeat("f", 2*maxFingerprintBytes)}, 0},
		"longer flags":                {Capability{Mode: writer, Flags: strings.Repeat("f", 2*maxFingerprintBytes+1)}, Invalid},
		"a mode of several nodes":     {Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_MULTI_NODE_MULTI_WRITER}, Invalid},
		"a filesystem on raw":         {Capability{Mode: writer, Block: true, FSType: ext4}, Invalid},
		"raw":                         {Capability{Mode: writer, Block: true}, 0},
		"a filesystem that is served": {Capability{Mode: writer, FSType: ext4}, 0},
		"one that is not":             {Capability{Mode: writer, FSType: "ntfs"}, Invalid},
	} {
		require.Equal(t, tc.want, tc.c.check().Why(), name)
	}
}
