package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
)

// Loop is one loop device that is bound to a file.
type Loop struct {
	Device  string // /dev/loopN
	Backing string // the file's path, as the kernel shows it
}

// Loops are the loop devices whose backing file is below a directory.
func Loops(below string) ([]Loop, error) {
	found, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	var loops []Loop
	for _, path := range found {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it was detached meanwhile
		}
		backing := strings.TrimSpace(string(raw))
		if strings.HasPrefix(backing, below+"/") {
			loops = append(loops, Loop{Device: "/dev/" + strings.Split(path, "/")[3], Backing: backing})
		}
	}
	return loops, nil
}

// Mount is one line of the kernel's mount table.
type Mount struct {
	Target, Source, FSType, Root string
}

// Mounts are the mounts at or below a directory.
func Mounts(below string) ([]Mount, error) {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(below))
	if err != nil {
		return nil, err
	}
	var mounts []Mount
	for _, i := range infos {
		mounts = append(mounts, Mount{Target: i.Mountpoint, Source: i.Source, FSType: i.FSType, Root: i.Root})
	}
	return mounts, nil
}

// MountsAt is how many mounts lie on a path, one above the other.
func MountsAt(path string) (int, error) {
	mounts, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(path))
	if err != nil {
		return 0, err
	}
	all, err := mountinfo.GetMounts(mountinfo.PrefixFilter(path))
	n := 0
	for _, m := range all {
		if m.Mountpoint == path {
			n++
		}
	}
	return max(n, len(mounts)), err
}

// hostView is what the cluster has on this host: images, manifests, loop devices, mounts and processes.
type hostView struct {
	*workspace
	children *children
}

// Images are the volume ids that have an image file in a node's pool. Any other
// file beside them is an error.
func (h *hostView) Images(node string) ([]string, error) {
	l, err := h.Layout()
	if err != nil {
		return nil, err
	}
	for _, n := range l.Nodes {
		if n.ID == node {
			return images(filepath.Join(n.PoolDir, "volumes"))
		}
	}
	return nil, fmt.Errorf("cluster.json has no node %q", node)
}

func images(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, e := range entries {
		id, is := strings.CutSuffix(e.Name(), ".img")
		if !is || !e.Type().IsRegular() {
			return nil, fmt.Errorf("%s is no image of a volume", filepath.Join(dir, e.Name()))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// AllImages are the images of all nodes' pools, as volume id to node. A volume
// with images in two pools is an error.
func (h *hostView) AllImages() (map[string]string, error) {
	l, err := h.Layout()
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, n := range l.Nodes {
		ids, err := images(filepath.Join(n.PoolDir, "volumes"))
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			if other := all[id]; other != "" {
				return nil, fmt.Errorf("volume %s has an image on %s and on %s", id, other, n.ID)
			}
			all[id] = n.ID
		}
	}
	return all, nil
}

// LoopsOf are the loop devices bound to one volume's image.
func (h *hostView) LoopsOf(volume string) ([]Loop, error) {
	all, err := Loops(h.Base)
	if err != nil {
		return nil, err
	}
	var of []Loop
	for _, l := range all {
		if strings.TrimSuffix(filepath.Base(l.Backing), ".img") == volume {
			of = append(of, l)
		}
	}
	return of, nil
}

// AwaitNoLeftovers waits until no image, loop device or mount of this cluster is left.
func (h *hostView) AwaitNoLeftovers(ctx context.Context) error {
	return Poll(ctx, Patience, "no image, loop device and mount to be left", func() (bool, error) {
		all, err := h.AllImages()
		if err == nil && len(all) != 0 {
			err = fmt.Errorf("%d images are left, e.g. %v", len(all), first(all))
		}
		err = errors.Join(err, h.volumesLeft())
		return err == nil, err
	})
}

// volumesLeft answers an error that names what volumes hold in the kernel.
func (h *hostView) volumesLeft() error {
	l, err := h.Layout()
	if err != nil {
		return err
	}
	folders := []string{h.Mounts()}
	for _, n := range l.Nodes {
		// A pool's own filesystem stays mounted; nothing of a volume is below it.
		for _, folder := range []string{"volumes", "snapshots", "tmp"} {
			folders = append(folders, filepath.Join(n.PoolDir, folder))
		}
	}
	var errs []error
	for _, folder := range folders {
		errs = append(errs, leftovers(folder))
	}
	return errors.Join(errs...)
}

func first(m map[string]string) string {
	for k := range m {
		return k
	}
	return ""
}

// leftovers answers an error that names the loop devices and mounts below a directory.
func leftovers(folder string) error {
	loops, err := Loops(folder)
	if err == nil && len(loops) != 0 {
		err = fmt.Errorf("loop devices are left: %+v", loops)
	}
	mounts, mountErr := Mounts(folder)
	if mountErr == nil && len(mounts) != 0 {
		mountErr = fmt.Errorf("mounts are left: %+v", mounts)
	}
	return errors.Join(err, mountErr)
}

// Leftovers answers an error that names every process, loop device and mount of
// this cluster. The kernel may take a moment to let a loop device go.
func (h *hostView) Leftovers(ctx context.Context) error {
	return Poll(ctx, Patience, "nothing of the cluster to be left", func() (bool, error) {
		err := leftovers(h.Base)
		if pids := h.children.processes(); len(pids) != 0 {
			err = errors.Join(err, fmt.Errorf("processes are left: %v", pids))
		}
		return err == nil, err
	})
}
