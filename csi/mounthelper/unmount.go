package mounthelper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unpublishPatience is how long an unmount asks controllers that do not answer.
const unpublishPatience = 10 * time.Second

// NotGivenBackError says that a volume is not mounted any more, and stays published to this host until a controller has
// been told.
type NotGivenBackError struct {
	Name, Target string
	Cause        error
}

func (e *NotGivenBackError) Error() string {
	return fmt.Sprintf("volume %s is unmounted, and stays published to this host until `holdfast mounts release` reaches a controller: %v", e.Name, e.Cause)
}

// Unwrap returns why no controller was told.
func (e *NotGivenBackError) Unwrap() error { return e.Cause }

// Unmount unmounts what Mount mounted on a path, and gives the volume back. Repeated, it goes on. Nothing is done by
// force: what is in use is an error (ABORTED). The error is a *NotGivenBackError where only the controllers are missing.
func (h *Helper) Unmount(ctx context.Context, target string) error {
	record, err := h.records().at(target)
	if err != nil {
		return err
	}
	if record == nil {
		return status.Errorf(codes.NotFound, "nothing of Holdfast is mounted on %s", target)
	}
	return h.release(ctx, record, true)
}

// Release gives back every volume that is not mounted any more, as after a boot or an unmount without this helper, and
// returns those that it gave back.
func (h *Helper) Release(ctx context.Context) (released []Record, err error) {
	unused, err := h.Unused()
	for _, record := range unused {
		if failed := h.release(ctx, &record, false); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		released = append(released, record)
	}
	return released, err
}

// Unused are the records of what is not mounted any more.
func (h *Helper) Unused() ([]Record, error) {
	all, err := h.records().list()
	return slices.DeleteFunc(all, func(record Record) bool {
		mounted, failed := h.Table.IsMounted(record.Target)
		err = errors.Join(err, failed)
		return mounted || failed != nil
	}), err
}

// List are all records of this host.
func (h *Helper) List() ([]Record, error) { return h.records().list() }

// release gives back a record's volume; unless mounted ones may be unmounted, one that was mounted meanwhile stays.
func (h *Helper) release(ctx context.Context, record *Record, mounted bool) error {
	until := time.Now().Add(h.Patience)
	unlock, err := h.lock(ctx, record.ID, until)
	if err != nil {
		return err
	}
	defer unlock()
	current, err := h.records().read(record.ID)
	if err != nil || current == nil || current.Target != record.Target {
		return err
	}
	if is, err := h.Table.IsMounted(record.Target); err != nil || is && !mounted {
		return err
	}
	return h.giveBack(ctx, current, until)
}

// giveBack undoes a mount, in the opposite order. The record goes last; that the mount point could not be made again is
// said, and keeps nothing from being given back.
func (h *Helper) giveBack(ctx context.Context, record *Record, until time.Time) error {
	if err := h.unbind(ctx, record, until); err != nil {
		return err
	}
	staging := h.records().staging(record.ID)
	err := h.repeat(ctx, "unstage volume "+record.Name, until, func(ctx context.Context) error {
		_, err := h.Node.NodeUnstageVolume(ctx, &csi.NodeUnstageVolumeRequest{VolumeId: string(record.ID), StagingTargetPath: staging})
		return err
	})
	if err != nil {
		return err
	}
	if err := os.Remove(staging); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the staging folder: %w", err)
	}
	unpublish := func(ctx context.Context) error { return h.Controllers.Unpublish(ctx, record.ID, record.Node) }
	if soon := time.Now().Add(unpublishPatience); soon.Before(until) { // a host that goes down does not wait
		until = soon
	}
	if err := h.repeat(ctx, "unpublish", until, unpublish); err != nil {
		return &NotGivenBackError{Name: record.Name, Target: record.Target, Cause: errors.Join(err, restoreTarget(record))}
	}
	return errors.Join(h.records().remove(record.ID), restoreTarget(record))
}

// unbind removes the mount. In use, umount(8) still finds this helper.
func (h *Helper) unbind(ctx context.Context, record *Record, until time.Time) error {
	h.Table.Unregister(ctx, record.Target)
	err := h.repeat(ctx, "unmount volume "+record.Name, until, func(ctx context.Context) error {
		_, err := h.Node.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: string(record.ID), TargetPath: record.Target})
		if mounted, _ := h.Table.IsMounted(record.Target); mounted && status.Code(err) == codes.Aborted {
			return refused("%s", status.Convert(err).Message()) // in use: to wait for its users is the caller's choice
		}
		return err
	})
	if err != nil && !record.Block {
		return also(err, h.Table.Register(ctx, record.Target, "", nil))
	}
	return err
}

func owner(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return 0, 0
}
