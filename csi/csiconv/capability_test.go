package csiconv

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// CSI-CTRL-VolumeCapability-01..04, -06.
func TestParseCapability(t *testing.T) {
	mode := &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}
	mounted := func(m *csi.VolumeCapability_MountVolume) *csi.VolumeCapability {
		return &csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Mount{Mount: m}}
	}
	const writer = fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER
	for name, tc := range map[string]struct {
		given   *csi.VolumeCapability
		want    fsm.Capability
		problem string // empty: none
	}{
		"none":                        {nil, fsm.Capability{}, "required"},
		"empty":                       {&csi.VolumeCapability{}, fsm.Capability{}, "access_mode"},
		"no access type":              {&csi.VolumeCapability{AccessMode: mode}, fsm.Capability{}, "access_type"},
		"a mode from the future":      {&csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: 42}}, fsm.Capability{}, "access_mode"},
		"block":                       {&csi.VolumeCapability{AccessMode: mode, AccessType: &csi.VolumeCapability_Block{}}, fsm.Capability{Mode: writer, Block: true}, ""},
		"a mount that says no more":   {mounted(nil), fsm.Capability{Mode: writer}, ""},
		"a filesystem":                {mounted(&csi.VolumeCapability_MountVolume{FsType: "xfs"}), fsm.Capability{Mode: writer, FSType: "xfs"}, ""},
		"a filesystem we do not make": {mounted(&csi.VolumeCapability_MountVolume{FsType: "zfs"}), fsm.Capability{}, "zfs"},
		"flags, as a fingerprint":     {mounted(&csi.VolumeCapability_MountVolume{MountFlags: []string{"a", "b"}}), fsm.Capability{Mode: writer, Flags: Fingerprint("a", "b")}, ""},
		"a mount group, by name":      {mounted(&csi.VolumeCapability_MountVolume{VolumeMountGroup: "staff"}), fsm.Capability{}, "volume_mount_group"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				got, err := ParseCapability(tc.given)
				if tc.problem != "" {
					require.ErrorContains(t, err, tc.problem)
					require.Equal(t, fsm.Invalid, reasonOf(err))
					continue
				}
				require.NoError(t, err)
				require.Equal(t, tc.want, got)
			}
		})
	}
}

// CSI-CTRL-VolumeCapability-08..16: every mode of CSI is either served or refused.
func TestServed(t *testing.T) {
	served := 0
	for number := range csi.VolumeCapability_AccessMode_Mode_name {
		mode := fsmpb.AccessMode(number)
		err := CheckAccessMode(mode, fsm.Precondition)
		require.Equal(t, strings.HasPrefix(mode.String(), "ACCESS_MODE_SINGLE_NODE"), err == nil, mode)
		if err == nil {
			served++
		} else {
			require.Equal(t, fsm.Precondition, reasonOf(err))
		}
	}
	require.Equal(t, 4, served)
}

func TestFingerprint(t *testing.T) {
	require.Equal(t, Fingerprint("a", "b"), Fingerprint("a", "b"))
	require.NotEqual(t, Fingerprint("a", "b"), Fingerprint("ab"))
	require.NotEqual(t, Fingerprint("a", "b"), Fingerprint("b", "a"))
	require.NotEqual(t, Fingerprint(), Fingerprint(""))
	require.Len(t, Fingerprint(strings.Repeat("long", 1000)), 32)
}

// CSI-CTRL-ControllerPublishVolume-11, CSI-NODE-NodeStageVolume-10.
func TestCheckVolumeContext(t *testing.T) {
	for key, ok := range map[string]bool{
		"csi.storage.k8s.io/serviceAccount.tokens":     true,
		"storage.kubernetes.io/csiProvisionerIdentity": true,
		"pool":                 false,
		"holdfast.storage/x":   false,
		"notk8s.io/x":          false,
		"csi.storage.k8s.io":   false,
		"evil/storage.k8s.io/": false,
	} {
		require.Equal(t, ok, CheckVolumeContext(map[string]string{key: "v"}) == nil, key)
	}
	require.NoError(t, CheckVolumeContext(nil))
}

// CSI-CTRL-VolumeCondition-01, -02.
func TestCondition(t *testing.T) {
	for name, c := range map[string]fsm.Condition{
		"healthy":                  {},
		"abnormal without a word":  {Abnormal: true},
		"abnormal with a long one": {Abnormal: true, Message: strings.Repeat("é", 100)},
	} {
		t.Run(name, func(t *testing.T) {
			got := Condition(c)
			require.Equal(t, c.Abnormal, got.GetAbnormal())
			require.NotEmpty(t, got.GetMessage())
			require.LessOrEqual(t, len(got.GetMessage()), MaxString)
			require.True(t, utf8.ValidString(got.GetMessage()))
		})
	}
}

// CSI-CTRL-Topology-11..17.
func TestParseTopology(t *testing.T) {
	for name, tc := range map[string]struct {
		key, value string
		ok         bool
	}{
		"a key with a prefix":        {"topology.holdfast.storage/zone", "z1", true},
		"a key without one":          {"zone", "z1", true},
		"an upper-case name":         {"example.com/Zone", "Z_1.a-b", true},
		"63 bytes each":              {strings.Repeat("p", 63) + "/" + strings.Repeat("k", 63), strings.Repeat("v", 63), true},
		"one character each":         {"p/k", "v", true},
		"a prefix of 64 bytes":       {strings.Repeat("p", 64) + "/k", "v", false},
		"a name of 64 bytes":         {"p/" + strings.Repeat("k", 64), "v", false},
		"a value of 64 bytes":        {"p/k", strings.Repeat("v", 64), false},
		"no key":                     {"", "v", false},
		"no name":                    {"p/", "v", false},
		"no prefix before the slash": {"/k", "v", false},
		"an upper-case prefix":       {"P/k", "v", false},
		"an empty label in a prefix": {"a..b/k", "v", false},
		"a space in a name":          {"p/a b", "v", false},
		"a hyphen before a name":     {"p/-k", "v", false},
		"two slashes":                {"p//k", "v", false},
		"no value":                   {"p/k", "", false},
		"a hyphen after a value":     {"p/k", "v-", false},
		"a value of another script":  {"p/k", "зона", false},
	} {
		t.Run(name, func(t *testing.T) {
			term, err := ParseTopology(&csi.Topology{Segments: map[string]string{tc.key: tc.value}})
			if !tc.ok {
				require.Equal(t, fsm.Invalid, reasonOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, fsm.Topology{{Key: strings.ToLower(tc.key), Value: tc.value}}, term)
		})
	}
	_, err := ParseTopology(&csi.Topology{Segments: map[string]string{"p/Zone": "a", "p/zone": "a"}})
	require.Equal(t, fsm.Invalid, reasonOf(err))
	two, err := ParseTopology(&csi.Topology{Segments: map[string]string{"p/b": "1", "p/a": "2"}})
	require.NoError(t, err)
	require.Equal(t, fsm.Topology{{Key: "p/a", Value: "2"}, {Key: "p/b", Value: "1"}}, two, "sorted by key")
	require.Equal(t, map[string]string{"p/b": "1", "p/a": "2"}, Topology(two).GetSegments())
}
