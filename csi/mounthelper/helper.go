package mounthelper

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Volume is a volume as the controllers know it.
type Volume struct {
	ID         fsm.VolumeID
	Name       string
	Capability *csi.VolumeCapability
	// Published: a publication to the node is there, for reading only or not; Orchestrated: no operator made it.
	Published, ReadOnly, Orchestrated bool
}

// Controllers are what the helper needs of them. Their errors are of gRPC.
type Controllers interface {
	// Find finds a volume by its id or name, and what there is of it on the node. A volume that the caller may not use
	// is FAILED_PRECONDITION.
	Find(ctx context.Context, idOrName, node string) (*Volume, error)
	// Publish gives the node the right to use it, and returns the publish context.
	Publish(ctx context.Context, id fsm.VolumeID, node string, readOnly bool) (map[string]string, error)
	// Unpublish ends that. What is not there is done, and what an orchestrator published is left.
	Unpublish(ctx context.Context, id fsm.VolumeID, node string) error
}

// Table is the host's table of mounts.
type Table interface {
	// IsMounted tells whether something is mounted on a path.
	IsMounted(path string) (bool, error)
	// Register has umount(8) call this helper for the path; Unregister ends that.
	Register(ctx context.Context, path, fsType string, flags []string) error
	Unregister(ctx context.Context, path string)
}

// Helper mounts and unmounts on this host.
type Helper struct {
	Controllers Controllers
	Node        csi.NodeClient
	Table       Table
	Dir         string // of records and staging folders
	// Patience is how long it asks again while controllers or the node do not answer, or are at work.
	Patience time.Duration
	// Pause is the time between two attempts; 0: half a second.
	Pause time.Duration
}

func (h *Helper) records() records { return records(h.Dir) }

// attemptTimeout bounds one call.
const attemptTimeout = 30 * time.Second

func busy(format string, args ...any) error {
	return status.Errorf(codes.Aborted, format, args...)
}

func refused(format string, args ...any) error {
	return status.Errorf(codes.FailedPrecondition, format, args...)
}

// also is an error with its code, and what failed after it.
func also(err, next error) error {
	if next == nil {
		return err
	}
	return status.Errorf(status.Code(err), "%s; then: %s", status.Convert(err).Message(), status.Convert(next).Message())
}

// retriable are the codes after which an orchestrator repeats a call, too.
var retriable = []codes.Code{codes.Unavailable, codes.Aborted, codes.DeadlineExceeded}

// repeat makes a call until it has a definite answer, or the time is over.
func (h *Helper) repeat(ctx context.Context, what string, until time.Time, call func(context.Context) error) error {
	pause := h.Pause
	if pause == 0 {
		pause = 500 * time.Millisecond
	}
	for {
		attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
		err := call(attempt)
		cancel()
		if err == nil {
			return nil
		}
		if !slices.Contains(retriable, status.Code(err)) || ctx.Err() != nil || time.Now().Add(pause).After(until) {
			return status.Error(status.Code(err), fmt.Sprintf("%s: %s", what, status.Convert(err).Message()))
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// nodeID asks the node of this host who it is.
func (h *Helper) nodeID(ctx context.Context, until time.Time) (id string, err error) {
	err = h.repeat(ctx, "ask the node of this host", until, func(ctx context.Context) error {
		info, err := h.Node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		id = info.GetNodeId()
		return err
	})
	return id, err
}
