package mounthelper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/moby/sys/mountinfo"

	"github.com/holdfast-storage/holdfast/executor/run"
)

// Suffix is the type by which mount(8) and umount(8) find this helper, as /sbin/mount.holdfast and /sbin/umount.holdfast.
const Suffix = "holdfast"

// HostTable is the table of this host: the kernel's, and libmount's beside it, which says that umount(8) has to call this
// helper for what looks like any ext4 or xfs.
type HostTable struct{ runner *run.Runner }

// NewHostTable is the table of the mount namespace of this process.
func NewHostTable() HostTable { return HostTable{runner: run.New()} }

// IsMounted reads the kernel's table.
func (HostTable) IsMounted(path string) (bool, error) {
	mounted, err := mountinfo.Mounted(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %s is mounted: %w", path, err)
	}
	return mounted, nil
}

// Register has mount(8) write the mount into libmount's table, and mount nothing.
func (t HostTable) Register(ctx context.Context, path, _ string, flags []string) error {
	entries, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil || len(entries) == 0 {
		return err
	}
	top := entries[len(entries)-1]
	t.Unregister(ctx, path) // once only
	options := append([]string{"helper=" + Suffix, "uhelper=" + Suffix, "_netdev"}, flags...)
	_, err = t.runner.Run(ctx, run.Command{Tool: "mount", Args: []string{"-i", "-f", "-t", top.FSType, "-o", strings.Join(options, ","), top.Source, path}})
	if err != nil {
		return fmt.Errorf("have umount find the helper of %s: %w", path, err)
	}
	return nil
}

// Unregister removes it from there. That it is not there is no error.
func (t HostTable) Unregister(ctx context.Context, path string) {
	_, _ = t.runner.Run(ctx, run.Command{Tool: "umount", Args: []string{"-i", "--fake", path}})
}
