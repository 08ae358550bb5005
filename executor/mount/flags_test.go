package mount

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Kubelets add a label to the flags of staging and of each publication: it is the filesystem's, and a bind has no label of
// its own, so both calls are served and the bind's attributes are those without it.
func TestALabelIsTheFilesystems(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0:c455,c962"
	plain, err := parseFlags(fsm.MountPolicy{}, "ext4", []string{"noatime"})
	require.NoError(t, err)
	for _, flag := range []string{`context="` + label + `"`, "context=" + label} {
		for _, fsType := range []string{"ext4", "xfs", ""} {
			got, err := parseFlags(fsm.MountPolicy{}, fsType, []string{"noatime", flag})
			require.NoError(t, err)
			require.Equal(t, []fsSetting{{"context", label}}, got.fsSettings, "the kernel gets it without quotes and with its comma")
			require.Equal(t, plain.mountAttributes(), got.mountAttributes())
			require.Equal(t, plain.bindAttributes(false), got.bindAttributes(false))
		}
	}
	require.NotZero(t, plain.bindAttributes(false).Attr_set&unix.MOUNT_ATTR_NOATIME)
	_, err = parseFlags(fsm.MountPolicy{}, "ext4", []string{"fscontext=" + label})
	require.ErrorContains(t, err, "fscontext")
}
