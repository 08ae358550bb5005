package bootstrap

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/raftnode/store"
)

// fileName is in the data folder, so that it is lost with it.
const fileName = "kube-init.json"

// Verdict is what was decided for a data folder.
type Verdict struct {
	ID        string `json:"id"`        // of the folder, random
	Bootstrap bool   `json:"bootstrap"` // it founds the cluster, while it holds none
}

// File is where the verdict on a data folder is.
func File(dir string) string { return filepath.Join(dir, fileName) }

var idPattern = regexp.MustCompile(`^[0-9a-f]{32}$`)

// ReadVerdict reads a verdict. A missing one, or a part of one, is an error: nothing was decided then.
func ReadVerdict(path string) (v Verdict, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil && !idPattern.MatchString(v.ID) {
		err = errors.New("it has no id of a data folder")
	}
	if err != nil {
		return Verdict{}, fmt.Errorf("read %s, in which `holdfast kube-init` says whether this controller founds the cluster: %w", path, err)
	}
	return v, nil
}

func writeVerdict(dir string, v Verdict) error {
	text, err := json.Marshal(v)
	if err == nil {
		err = durablefile.Write(File(dir), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the verdict on the data folder %s: %w", dir, err)
	}
	return nil
}

// identify returns the folder's verdict so far; a folder that has none gets an id and founds nothing.
func identify(dir string) (Verdict, error) {
	v, err := ReadVerdict(File(dir))
	if !errors.Is(err, fs.ErrNotExist) {
		return v, err
	}
	var random [16]byte
	if _, err := rand.Read(random[:]); err != nil {
		return v, fmt.Errorf("draw an id of the data folder: %w", err)
	}
	v = Verdict{ID: hex.EncodeToString(random[:])}
	return v, writeVerdict(dir, v)
}

// clusterIn is the id of the cluster that the folder is a member of; empty: of none. A folder of a member that cannot be read is
// an error, whatever the reason: it may hold a cluster.
func clusterIn(dir string) (string, error) {
	if _, cluster := store.Owner(dir); cluster != "" {
		return cluster, nil
	}
	if _, err := store.Inspect(dir); err != nil {
		return "", fmt.Errorf("tell whether the data folder %s holds a cluster: %w", dir, err)
	}
	return "", nil
}

// errInUse: a controller, or another kube-init, runs with the folder.
var errInUse = errors.New("another process uses the data folder")

// lock locks the folder as a Raft member does, so that nothing is decided beside one.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the data folder: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data folder %s: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil // which ends the lock
}
