package encryption_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	spec "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/addons/encryption"
	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

const canary = "canary-passphrase"

// fakeHost answers with what it has, and remembers what it was asked.
type fakeHost struct {
	asked executor.RotateRequest
	err   error
}

func (h *fakeHost) RotateKey(_ context.Context, req executor.RotateRequest) error {
	h.asked = req
	return h.err
}

func key(text string) executor.Passphrase { return executor.NewPassphrase(text) }

func TestEncryptionKeyRotateChecksTheRequest(t *testing.T) {
	type req = spec.EncryptionKeyRotateRequest
	for name, tc := range map[string]struct {
		change func(*req)
		want   codes.Code
	}{
		"well-formed":               {func(*req) {}, codes.OK},
		"a volume is required":      {func(r *req) { r.VolumeId = "" }, codes.InvalidArgument},
		"an id of another form":     {func(r *req) { r.VolumeId = "fake-vol-id" }, codes.NotFound},
		"a key is required":         {func(r *req) { r.Secrets = nil }, codes.InvalidArgument},
		"the one before alone":      {func(r *req) { r.Secrets = map[string]string{"previousEncryptionPassphrase": canary} }, codes.InvalidArgument},
		"a key that is too long":    {func(r *req) { r.EncryptionKey = strings.Repeat(canary, 40) }, codes.InvalidArgument},
		"a malformed capability":    {func(r *req) { r.VolumeCapability = &csi.VolumeCapability{} }, codes.InvalidArgument},
		"a mode of Kubernetes":      {func(r *req) { r.VolumeCapability = modeAlone() }, codes.OK},
		"a relative path":           {func(r *req) { r.VolumePath = "rel" }, codes.NotFound},
		"S34: another site":         {func(r *req) { r.Parameters = map[string]string{"site": "B"} }, codes.InvalidArgument},
		"this site":                 {func(r *req) { r.Parameters = map[string]string{"site": "A"} }, codes.OK},
		"attributes of the volume":  {func(r *req) { r.Parameters = map[string]string{"storage.kubernetes.io/x": "y", "other": "z"} }, codes.OK},
		"other secrets beside them": {func(r *req) { r.Secrets["a"] = "b" }, codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			r := &req{VolumeId: string(fsm.VolumeIDFrom(uuid.New())), Secrets: map[string]string{"encryptionPassphrase": canary}}
			tc.change(r)
			h := &fakeHost{}
			_, err := encryption.New(h, "A").EncryptionKeyRotate(t.Context(), r)
			require.Equal(t, tc.want, status.Code(err), "%v", err)
			require.Equal(t, tc.want == codes.OK, h.asked.Volume != "")
			require.NotContains(t, fmt.Sprint(err, h.asked), canary, "S63")
			require.Zero(t, h.asked.Capability, "whatever it is staged for")
		})
	}
}

// S64: which key is the new one, and which may be the old one.
func TestS64_TheKeysOfARequest(t *testing.T) {
	for name, tc := range map[string]struct {
		given, present, previous string
		to                       executor.Passphrase
		old                      []executor.Passphrase
	}{
		"the Secret was edited":             {present: "new", previous: "old", to: key("new"), old: []executor.Passphrase{key("old")}},
		"the Secret as it was":              {present: "same", to: key("same")},
		"a key beside the Secret":           {given: "new", present: "old", to: key("new"), old: []executor.Passphrase{key("old")}},
		"a key beside a Secret of two":      {given: "new", present: "old", previous: "older", to: key("new"), old: []executor.Passphrase{key("old"), key("older")}},
		"a key, with the previous one only": {given: "new", previous: "old", to: key("new"), old: []executor.Passphrase{key("old")}},
	} {
		t.Run(name, func(t *testing.T) {
			h := &fakeHost{}
			_, err := encryption.New(h, "").EncryptionKeyRotate(t.Context(), &spec.EncryptionKeyRotateRequest{
				VolumeId: string(fsm.VolumeIDFrom(uuid.New())), EncryptionKey: tc.given,
				Secrets: map[string]string{"encryptionPassphrase": tc.present, "previousEncryptionPassphrase": tc.previous},
			})
			require.NoError(t, err)
			require.Equal(t, tc.to, h.asked.New)
			require.Equal(t, tc.old, h.asked.Old)
		})
	}
}

func TestEncryptionKeyRotateAnswersByTheTable(t *testing.T) {
	for reason, want := range map[fsm.Reason]codes.Code{
		fsm.NotFound: codes.NotFound, fsm.Busy: codes.Aborted, fsm.Unauthenticated: codes.Unauthenticated, fsm.Precondition: codes.FailedPrecondition,
	} {
		h := &fakeHost{err: fsm.Reject(reason, "as it is")}
		_, err := encryption.New(h, "").EncryptionKeyRotate(t.Context(), &spec.EncryptionKeyRotateRequest{
			VolumeId: string(fsm.VolumeIDFrom(uuid.New())), Secrets: map[string]string{"encryptionPassphrase": canary},
		})
		require.Equal(t, want, status.Code(err))
	}
}

// modeAlone is the capability that the client of Kubernetes sends, whatever the volume is staged for.
func modeAlone() *csi.VolumeCapability {
	mode := csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
	return &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: mode}}
}
