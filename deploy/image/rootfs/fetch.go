package rootfs

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Recipe is where the base comes from.
type Recipe struct {
	Dir     string   // the folder of the lists and hooks
	Sources []string // lines of sources.list
}

// Fetch unpacks the packages of a lock and returns the tree as mmdebstrap leaves it. A version that the mirrors no longer have
// is an error of apt.
func (r Recipe) Fetch(lockFile string, epoch time.Time) (*Tree, error) {
	return r.mmdebstrap(epoch, r.hook("install.sh", lockFile))
}

// Resolve makes a lock of the versions that the mirrors have now.
func (r Recipe) Resolve(now time.Time) (Lock, error) {
	tree, err := r.mmdebstrap(now, r.hook("resolve.sh", filepath.Join(r.Dir, "packages")))
	if err != nil {
		return Lock{}, err
	}
	lock := Lock{Epoch: now.UTC().Truncate(time.Second), Versions: map[string]string{}}
	for line := range strings.Lines(string(tree.Content("resolved"))) {
		if err := lock.add(strings.TrimSpace(line)); err != nil {
			return Lock{}, fmt.Errorf("apt's answer: %w", err)
		}
	}
	leftOut, err := Names(filepath.Join(r.Dir, "left-out"))
	for _, name := range leftOut {
		delete(lock.Versions, name)
	}
	return lock, err
}

func (r Recipe) hook(script, file string) string {
	return fmt.Sprintf(`--extract-hook='%s' "$1" '%s'`, filepath.Join(r.Dir, script), file)
}

// mmdebstrap runs without any mount: no program of a package is run that would need one.
func (r Recipe) mmdebstrap(epoch time.Time, hook string) (*Tree, error) {
	args := []string{
		"--quiet", "--variant=extract", "--skip=chroot/mount", "--format=tar", hook,
		"--setup-hook=/usr/share/mmdebstrap/hooks/merged-usr/setup00.sh", suite, "-",
	}
	cmd := exec.Command("mmdebstrap", append(args, r.Sources...)...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(epoch.Unix(), 10), "LC_ALL=C")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("mmdebstrap: %w\n%s", err, said.String())
	}
	return readTree(&out)
}
