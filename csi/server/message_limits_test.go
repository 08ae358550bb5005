package server

import (
	"errors"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/fsm"
)

// CSI-GEN-Size-01, -02, -07: the limit of every string of every request, at its border.
func TestEveryStringHasItsLimit(t *testing.T) {
	checked := 0
	forEachRequest(func(kind protoreflect.MessageType) {
		fields := kind.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if field.Kind() != protoreflect.StringKind || field.IsMap() || field.Name() == "starting_token" {
				continue
			}
			limit := 128
			switch field.Name() {
			case "node_id":
				limit = 256
			case "target_path", "staging_target_path", "volume_path":
				limit = 4095
			}
			require.NoError(t, CheckMessage(filledMessage(kind, field, limit)), field.FullName())
			err := CheckMessage(filledMessage(kind, field, limit+1))
			require.ErrorContains(t, err, string(field.Name()))
			require.Equal(t, fsm.Invalid, reasonOf(err))
			checked++
		}
	})
	require.Greater(t, checked, 30)
}

// CSI-GEN-Size-04: maps count keys and values together; CSI-GEN-Secrets-02: a value
// of a secret may be of any text.
func TestEveryMapHasItsLimit(t *testing.T) {
	checked := 0
	forEachRequest(func(kind protoreflect.MessageType) {
		fields := kind.Descriptor().Fields()
		for i := range fields.Len() {
			field := fields.Get(i)
			if !field.IsMap() {
				continue
			}
			for size, ok := range map[int]bool{MaxMap: true, MaxMap + 1: false} {
				msg := kind.New()
				pairs := msg.Mutable(field).Map()
				pairs.Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfString(strings.Repeat("\x01", 1000)))
				pairs.Set(protoreflect.ValueOfString("l").MapKey(), protoreflect.ValueOfString(strings.Repeat("v", size-1002)))
				require.Equal(t, ok, CheckMessage(msg.Interface()) == nil, "%s of %d bytes", field.FullName(), size)
			}
			checked++
		}
	})
	require.Greater(t, checked, 15)
}

func forEachRequest(fn func(protoreflect.MessageType)) {
	messages := csi.File_csi_proto.Messages()
	for i := range messages.Len() {
		if d := messages.Get(i); strings.HasSuffix(string(d.Name()), "Request") {
			fn(protoMessage(d.Name()))
		}
	}
}

func filledMessage(kind protoreflect.MessageType, field protoreflect.FieldDescriptor, size int) proto.Message {
	msg := kind.New()
	text := protoreflect.ValueOfString(strings.Repeat("x", size))
	if field.IsList() {
		msg.Mutable(field).List().Append(text)
	} else {
		msg.Set(field, text)
	}
	return msg.Interface()
}

func reasonOf(err error) fsm.Reason {
	var rejection *fsm.Rejection
	_ = errors.As(err, &rejection)
	return rejection.Why()
}

func TestCheckMessage(t *testing.T) {
	flags := func(all ...string) proto.Message {
		return &csi.NodeStageVolumeRequest{VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{MountFlags: all}},
		}}
	}
	topology := func(key, value string) proto.Message {
		return &csi.CreateVolumeRequest{AccessibilityRequirements: &csi.TopologyRequirement{
			Requisite: []*csi.Topology{{Segments: map[string]string{key: value}}},
		}}
	}
	for name, tc := range map[string]struct {
		msg     proto.Message
		problem string // empty: none
	}{
		"an empty message":                            {&csi.CreateVolumeRequest{}, ""},
		"GEN-Size-03: bytes count":                    {&csi.CreateVolumeRequest{Name: strings.Repeat("é", 65)}, "name has 130 bytes"},
		"CreateVolume-09: tab, line feed and return":  {&csi.CreateVolumeRequest{Name: "a\t\n\rb"}, ""},
		"CreateVolume-10: other controls are banned":  {&csi.CreateVolumeRequest{Name: "a\u0085b"}, "not allowed"},
		"a NUL in a path":                             {&csi.NodeUnpublishVolumeRequest{TargetPath: "/a\x00b"}, "target_path"},
		"CapacityRange-02: negative numbers":          {&csi.CreateVolumeRequest{CapacityRange: &csi.CapacityRange{RequiredBytes: -1}}, "required_bytes is negative"},
		"ListVolumes-06: negative entries":            {&csi.ListVolumesRequest{MaxEntries: -1}, "max_entries is negative"},
		"ListVolumes-08: a token is for its handler":  {&csi.ListVolumesRequest{StartingToken: strings.Repeat("\x01", 500)}, ""},
		"VolumeCapability-05: flags of 4 KiB":         {flags(strings.Repeat("a", 2048), strings.Repeat("b", 2048)), ""},
		"VolumeCapability-05: flags above 4 KiB":      {flags(strings.Repeat("a", 2048), strings.Repeat("b", 2049)), "mount_flags"},
		"a flag with a control character":             {flags("a\x01"), "mount_flags"},
		"GEN-Secrets-01: a well-formed key":           {&csi.DeleteVolumeRequest{Secrets: map[string]string{"Az09-_.": "v"}}, ""},
		"GEN-Secrets-01: a space in a key":            {&csi.DeleteVolumeRequest{Secrets: map[string]string{"a b": "v"}}, "a key of secrets"},
		"GEN-Secrets-01: a slash in a key":            {&csi.DeleteVolumeRequest{Secrets: map[string]string{"a/b": "v"}}, "a key of secrets"},
		"GEN-Secrets-01: an empty key":                {&csi.DeleteVolumeRequest{Secrets: map[string]string{"": "v"}}, "a key of secrets"},
		"keys of other maps are free":                 {&csi.CreateVolumeRequest{Parameters: map[string]string{"a/b c": "v"}}, ""},
		"but for banned characters":                   {&csi.CreateVolumeRequest{Parameters: map[string]string{"a\x01": "v"}}, "a key of parameters"},
		"GEN-Size-04: nested maps have the limit too": {topology("k", strings.Repeat("v", MaxMap)), "segments"},
		"GEN-Size-05: answers are held to it as well": {&csi.ControllerGetVolumeResponse{Status: &csi.ControllerGetVolumeResponse_VolumeStatus{VolumeCondition: &csi.VolumeCondition{Message: strings.Repeat("m", 129)}}}, "message"},
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				err := CheckMessage(tc.msg)
				if tc.problem == "" {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, tc.problem)
					require.Equal(t, fsm.Invalid, reasonOf(err))
				}
			}
		})
	}
}
