package drbd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/durablefile"
	"github.com/holdfast-storage/holdfast/executor/run"
)

// Installation puts this program, as the handler for the kernel, and DRBD's main file on the host's own root, which a
// container has mounted at Root. It may be repeated, and interrupted at any point.
type Installation struct {
	// Root is where the host's root is mounted.
	Root string
	// Handler, MainFile and Dir are paths on it; see Config.
	Handler, MainFile, Dir string
	// Program is what is copied, and Version what its `version` begins with: what is installed is run there first.
	Program, Version string
}

// newSuffix ends the name of a program that was not tried yet.
const newSuffix = ".new"

// Run installs what differs, and says what it did; nothing when all is there.
func (i Installation) Run(ctx context.Context) (done []string, err error) {
	i.MainFile, i.Dir = cmp.Or(i.MainFile, "/etc/drbd.conf"), cmp.Or(i.Dir, "/etc/drbd.d")
	for _, step := range []func(context.Context) (string, error){i.installHandler, i.installMainFile} {
		did, err := step(ctx)
		if err != nil {
			return done, err
		}
		if did != "" {
			done = append(done, did)
		}
	}
	return done, nil
}

// installHandler replaces the handler at once, by a program that was run where it lies: a filesystem that runs no programs,
// or another processor's program, is found before the kernel needs it.
func (i Installation) installHandler(ctx context.Context) (string, error) {
	if err := i.makeFolder(filepath.Dir(i.Handler)); err != nil {
		return "", err
	}
	path := filepath.Join(i.Root, i.Handler)
	same, err := isCopy(i.Program, path)
	if err != nil {
		return "", fmt.Errorf("install the handler: %w", err)
	}
	if same {
		return "", i.tryHandler(ctx, path)
	}
	if err := copyProgram(i.Program, path+newSuffix); err != nil {
		return "", fmt.Errorf("install the handler: %w", err)
	}
	if err := i.tryHandler(ctx, path+newSuffix); err != nil {
		return "", errors.Join(err, os.Remove(path+newSuffix))
	}
	if err := os.Rename(path+newSuffix, path); err != nil {
		return "", fmt.Errorf("install the handler: %w", err)
	}
	if err := durablefile.SyncDir(filepath.Dir(path)); err != nil {
		return "", fmt.Errorf("install the handler: %w", err)
	}
	return "installed the handler " + i.Handler, nil
}

// makeFolder makes a folder of the root. A link that leads out of what is mounted is refused: it would lead elsewhere on the host.
func (i Installation) makeFolder(dir string) error {
	root, err := os.OpenRoot(i.Root)
	if err != nil {
		return fmt.Errorf("open the host's root: %w", err)
	}
	err = root.MkdirAll(strings.TrimPrefix(filepath.Clean(dir), "/"), 0o755)
	if err != nil {
		err = fmt.Errorf("make the folder %s on the host: %w; choose one that no absolute link leads to", dir, err)
	}
	return errors.Join(err, root.Close())
}

// isCopy tells whether a file is a copy of another that this user, root, alone can change and everybody can run.
func isCopy(original, path string) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.IsDir() {
		return false, fmt.Errorf("%s is a folder", path)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() || info.Mode() != 0o755 {
		return false, nil
	}
	first, err := os.Open(original)
	if err != nil {
		return false, err
	}
	defer func() { _ = first.Close() }()
	second, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = second.Close() }()
	return sameContent(first, second)
}

func sameContent(a, b io.Reader) (bool, error) {
	first, second := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(a, first)
		m, errB := io.ReadFull(b, second)
		endA, endB := isEnd(errA), isEnd(errB)
		switch {
		case errA != nil && !endA, errB != nil && !endB:
			return false, errors.Join(errA, errB)
		case !bytes.Equal(first[:n], second[:m]):
			return false, nil
		case endA || endB:
			return endA && endB, nil
		}
	}
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func copyProgram(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	return durablefile.WriteWith(to, 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, source)
		return err
	})
}

// tryHandler runs a program for its version.
func (i Installation) tryHandler(ctx context.Context, path string) error {
	out, err := run.New().Run(ctx, run.Command{Root: "/", Tool: path, Args: []string{"version"}, Timeout: 30 * time.Second})
	if err != nil {
		return fmt.Errorf("run the handler at %s: %w; choose a folder of the host whose programs may be run", path, err)
	}
	if got, _, _ := strings.Cut(string(out), "\n"); !strings.HasPrefix(string(out), i.Version) {
		return fmt.Errorf("run the handler at %s: it is %q, and %q was installed", path, got, i.Version)
	}
	return nil
}

// installMainFile makes the main file where the host has none. One that is there is the host's own.
func (i Installation) installMainFile(context.Context) (string, error) {
	for _, dir := range []string{i.Dir, filepath.Dir(i.MainFile)} {
		if err := i.makeFolder(dir); err != nil {
			return "", err
		}
	}
	path := filepath.Join(i.Root, i.MainFile)
	if info, err := os.Lstat(path); err == nil && info.Size() > 0 {
		return "", nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look at DRBD's configuration: %w", err)
	}
	if err := durablefile.Write(path, mainFileContent(i.Dir), 0o644); err != nil {
		return "", fmt.Errorf("make DRBD's configuration: %w", err)
	}
	return "made " + i.MainFile, nil
}
