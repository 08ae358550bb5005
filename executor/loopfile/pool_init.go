package loopfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	idFile       = ".holdfast-pool"
	newIDFile    = idFile + ".new" // its content is not known to be whole
	volumesDir   = "volumes"
	snapshotsDir = "snapshots"
	tmpDir       = "tmp"
)

var poolPattern = regexp.MustCompile(`^hp-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Init makes a directory a pool and returns its id. A missing directory is created; one that has
// an id keeps it; one with any other content is refused. Call it only for a pool that this host
// has never known: the mount point of an unmounted pool is an empty directory too (S12).
func Init(dir string) (fsm.PoolID, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make pool folder %s: %w", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", fmt.Errorf("open pool folder %s: %w", dir, err)
	}
	defer closeRoot(root)
	switch id, err := readID(root); {
	case err == nil:
		return id, makeFolders(root)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the id of pool %s: %w", dir, err)
	}
	if err := checkEmpty(root); err != nil {
		return "", fmt.Errorf("make %s a pool: %w", dir, err)
	}
	if err := root.Remove(unfinishedImage); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("make %s a pool: %w", dir, err)
	}
	return newID(root)
}

// checkEmpty refuses a directory with any content but what a new filesystem or an Init left that was
// killed anywhere.
func checkEmpty(root *os.Root) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		empty, err := isLeftover(root, e)
		if err != nil {
			return fmt.Errorf("look whether it is empty: %w", err)
		}
		if !empty {
			return fmt.Errorf("it is not empty: it holds %s", e.Name())
		}
	}
	return nil
}

// isLeftover tells whether nothing is lost with an entry. A folder that cannot be read may hold all volumes of a pool.
func isLeftover(root *os.Root, e fs.DirEntry) (bool, error) {
	switch e.Name() {
	case newIDFile, unfinishedImage, tryName + fromSuffix, tryName + toSuffix:
		return e.Type().IsRegular(), nil
	case "lost+found", volumesDir, snapshotsDir, tmpDir:
		if !e.IsDir() {
			return false, nil
		}
		inside, err := fs.ReadDir(root.FS(), e.Name())
		if e.Name() == "lost+found" && errors.Is(err, fs.ErrPermission) {
			return true, nil // a new filesystem's is root's
		}
		return len(inside) == 0, err
	}
	return false, nil
}

// newID writes the id last: a pool with an id is complete.
func newID(root *os.Root) (fsm.PoolID, error) {
	if err := makeFolders(root); err != nil {
		return "", err
	}
	id := fsm.PoolID("hp-" + uuid.NewString())
	f, err := root.OpenFile(newIDFile, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("write the pool's id: %w", err)
	}
	_, err = f.WriteString(string(id) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("write the pool's id: %w", err)
	}
	if err := root.Rename(newIDFile, idFile); err != nil {
		return "", fmt.Errorf("write the pool's id: %w", err)
	}
	return id, syncDir(root, ".")
}

func makeFolders(root *os.Root) error {
	for _, dir := range []string{volumesDir, snapshotsDir, tmpDir} {
		if err := root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make the pool's folder %s: %w", dir, err)
		}
	}
	return nil
}

func readID(root *os.Root) (fsm.PoolID, error) {
	text, err := root.ReadFile(idFile)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if !poolPattern.MatchString(id) {
		return "", fmt.Errorf("%s does not hold a pool id", filepath.Join(root.Name(), idFile))
	}
	return fsm.PoolID(id), nil
}
