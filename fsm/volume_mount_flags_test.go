package fsm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S73: a refusal names the flag and those that there are, and no secret.
func TestMountFlags(t *testing.T) {
	const label = "system_u:object_r:container_file_t:s0:c15,c25"
	both := MountPolicy{Suid: true, Dev: true}
	for name, tc := range map[string]struct {
		policy MountPolicy
		fsType string
		flags  []string
		names  []string // of the refusal; nil: served
	}{
		"none":                             {fsType: "ext4"},
		"usual ones":                       {fsType: "ext4", flags: []string{"noatime", "nodiscard", "errors=remount-ro", "ro"}},
		"of any filesystem":                {flags: []string{"errors=remount-ro", "inode64"}},
		"of another filesystem":            {fsType: "ext4", flags: []string{"inode64"}, names: []string{`"inode64"`, "ext4", "nodiscard"}},
		"quotas of projects, on xfs":       {fsType: "xfs", flags: []string{"prjquota"}},
		"which ext4 is not made for":       {fsType: "ext4", flags: []string{"prjquota"}, names: []string{`"prjquota"`, "ext4"}},
		"a label":                          {fsType: "ext4", flags: []string{"context=" + label}},
		"a label, as kubelets write it":    {fsType: "xfs", flags: []string{`context="` + label + `"`}},
		"a label that is none":             {fsType: "xfs", flags: []string{`context="a:b:c` + "\n" + `"`}, names: []string{`"context"`, "label"}},
		"a label with a quote":             {fsType: "xfs", flags: []string{`context="a:b:c`}, names: []string{`"context"`}},
		"set-user-id, by nobody's leave":   {fsType: "xfs", flags: []string{"suid"}, names: []string{`"suid"`, "--allow-mount-flag=suid"}},
		"devices, by nobody's leave":       {policy: MountPolicy{Suid: true}, flags: []string{"suid", "dev"}, names: []string{`"dev"`, "--allow-mount-flag=dev"}},
		"both, by an operator's":           {policy: both, fsType: "xfs", flags: []string{"suid", "dev"}},
		"a known one with a value":         {fsType: "ext4", flags: []string{"data=hunter2"}, names: []string{`"data"`, "noatime"}},
		"an unknown one, by its place":     {fsType: "ext4", flags: []string{"noatime", "password=hunter2"}, names: []string{"flag 2 of 2", "noatime"}},
		"one that may be a secret":         {fsType: "ext4", flags: []string{"hunter2"}, names: []string{"flag 1 of 1"}},
		"several in one":                   {fsType: "ext4", flags: []string{"noatime,nodev"}, names: []string{"flag 1 of 1"}},
		"an empty one":                     {fsType: "ext4", flags: []string{""}, names: []string{"flag 1 of 1"}},
		"one that is always there, undone": {fsType: "ext4", flags: []string{"exec"}, names: []string{`"exec"`}},
	} {
		t.Run(name, func(t *testing.T) {
			rej := tc.policy.Check(tc.fsType, tc.flags)
			if tc.names == nil {
				require.Nil(t, rej)
				return
			}
			require.Equal(t, Invalid, rej.Why())
			for _, part := range tc.names {
				require.Contains(t, rej.Message, part)
			}
			require.NotContains(t, rej.Message, "hunter2")
			require.Less(t, len(rej.Message), 512)
		})
	}
}

// A flag is shown in a log line or an error only where it is an option that everybody knows: anything else may be a secret.
func TestWhichMountFlagsAreShown(t *testing.T) {
	for flag, want := range map[string]bool{"noatime": true, "exec": true, "prjquota": true, "inode64": true, "hunter2": false, "": false, "context=a:b:c": false, "data=hunter2": false} {
		require.Equal(t, want, PlainMountFlag(flag), flag)
	}
	for _, flags := range mountFlags {
		for _, flag := range flags {
			require.True(t, PlainMountFlag(flag), flag)
		}
	}
}
