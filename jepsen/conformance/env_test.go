package conformance

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/cluster/harness"
)

// rowTest asserts one row. It fails when the behaviour is broken.
type rowTest func(t *testing.T, w *Env)

// Env is the cluster that all rows share: three controllers and two nodes. Rows create what they need under names of
// their own and clean it up.
type Env struct {
	Cluster *harness.Cluster
	CO      *harness.CO // repeats what may be repeated, as an orchestrator does
	serial  atomic.Int64
}

// Name is a fresh name for a volume or a snapshot.
func (w *Env) Name(what string) string { return fmt.Sprintf("row-%s-%d", what, w.serial.Add(1)) }

// Path is a fresh absolute path below which the row may mount; its parent exists.
func (w *Env) Path(what string) string {
	return filepath.Join(w.Cluster.Mounts(), fmt.Sprintf("%s-%d", what, w.serial.Add(1)))
}

// timeout bounds what is expected soon: it comes late on a busy machine. rowTime bounds a row as a whole.
const timeout, rowTime = 30 * time.Second, 2 * time.Minute

// Context ends with the row, at the latest after rowTime.
func (w *Env) Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rowTime)
	t.Cleanup(cancel)
	return ctx
}

// Controller is c1's service; rows that are about instances ask for others by id.
func (w *Env) Controller(t *testing.T) csi.ControllerClient {
	t.Helper()
	c, err := w.Cluster.Controller("c1")
	require.NoError(t, err)
	return c
}

// Node is the service of n1.
func (w *Env) Node(t *testing.T) csi.NodeClient {
	t.Helper()
	n, err := w.Cluster.Node("n1")
	require.NoError(t, err)
	return n
}

// Conn is a connection to the socket of a controller or a node, for services that
// the harness does not know.
func (w *Env) Conn(t *testing.T, id string) *grpc.ClientConn {
	t.Helper()
	l, err := w.Cluster.Layout()
	require.NoError(t, err)
	conn, err := harness.Dial(endpointPath(l, id))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func endpointPath(l harness.Layout, id string) string {
	for _, c := range l.Controllers {
		if c.ID == id {
			return c.Endpoint
		}
	}
	for _, n := range l.Nodes {
		if n.ID == id {
			return n.Endpoint
		}
	}
	return ""
}

// requireRefused asserts the code of a failed call, and that it has a message and no details, as every failed call must.
func requireRefused(t *testing.T, err error, want codes.Code) {
	t.Helper()
	require.Error(t, err)
	s, ok := status.FromError(err)
	require.True(t, ok, "not a gRPC status: %v", err)
	require.Equal(t, want, s.Code(), s.Message())
	require.NotEmpty(t, s.Message())
	require.Empty(t, s.Details())
}
