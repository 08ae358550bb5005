package replicate_test

import (
	"context"
	"testing"

	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/holdfast-storage/holdfast/jepsen/replicate"
)

// recorder records a call, and answers it.
type recorder struct {
	grpc.ClientConnInterface
	method string
	req    proto.Message
}

func (r *recorder) Invoke(_ context.Context, method string, req, res any, _ ...grpc.CallOption) error {
	r.method, r.req = method, req.(proto.Message)
	switch res := res.(type) {
	case *replication.ResyncVolumeResponse:
		res.Ready = true
	case *replication.GetVolumeReplicationInfoResponse:
		res.LastSyncBytes = 7
	}
	return nil
}

func TestEachMethodIsCalledWithWhatItsRequestHas(t *testing.T) {
	request := replicate.Request{Volume: "v", VolumeID: "old", ID: "dr", Force: true, Secrets: map[string]string{"s": "t"}}.With("site", "A").With("keep", "false")
	parameters := map[string]string{"site": "A", "keep": "false"}
	source := replicate.VolumeSource("v")
	for method, want := range map[string]proto.Message{
		replicate.Enable:  &replication.EnableVolumeReplicationRequest{ReplicationId: "dr", Parameters: parameters, Secrets: request.Secrets, ReplicationSource: source},
		replicate.Disable: &replication.DisableVolumeReplicationRequest{ReplicationId: "dr", Parameters: parameters, Secrets: request.Secrets, ReplicationSource: source},
		replicate.Promote: &replication.PromoteVolumeRequest{ReplicationId: "dr", Force: true, Parameters: parameters, Secrets: request.Secrets, ReplicationSource: source},
		replicate.Demote:  &replication.DemoteVolumeRequest{ReplicationId: "dr", Force: true, Parameters: parameters, Secrets: request.Secrets, ReplicationSource: source},
		replicate.Resync:  &replication.ResyncVolumeRequest{ReplicationId: "dr", Force: true, Parameters: parameters, Secrets: request.Secrets, ReplicationSource: source},
		replicate.Info:    &replication.GetVolumeReplicationInfoRequest{ReplicationId: "dr", Secrets: request.Secrets, ReplicationSource: source},
	} {
		var r recorder
		m := want.ProtoReflect() // the deprecated field, which callers of before still set
		m.Set(m.Descriptor().Fields().ByName("volume_id"), protoreflect.ValueOfString("old"))
		answer, err := replicate.Call(t.Context(), &r, method, request)
		require.NoError(t, err)
		require.Equal(t, "/replication.Controller/"+method, r.method)
		require.True(t, proto.Equal(want, r.req), "%v is not %v", r.req, want)
		require.Equal(t, method == replicate.Resync, answer.Ready)
		require.Equal(t, method == replicate.Info, answer.Info.GetLastSyncBytes() == 7)
	}
}

func TestARequestWithoutASourceHasNone(t *testing.T) {
	var r recorder
	_, err := replicate.Call(t.Context(), &r, replicate.Info, replicate.Request{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&replication.GetVolumeReplicationInfoRequest{}, r.req))
}
