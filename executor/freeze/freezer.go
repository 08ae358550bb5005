package freeze

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

var _ executor.Freezer = (*Freezer)(nil)

// startTimeout is how long the thaw process may take until it is ready; tests set another value.
var startTimeout = 5 * time.Second

// Config says where records are kept and which program thaws.
type Config struct {
	// Dir is the directory of the records, used by this node process alone; it is created when it
	// is missing. It must not be on a filesystem that is ever frozen.
	Dir string
	// Program is the command of the thaw process, such as {"/usr/bin/holdfast", "thaw",
	// "--record"}; the record's path is appended.
	Program []string
}

// Freezer implements executor.Freezer.
type Freezer struct {
	dir     string
	program []string

	mu     sync.Mutex
	active map[fsm.VolumeID]bool // being frozen by this process
}

// New creates the directory. Call Recover before any other operation on a volume.
func New(cfg Config) (*Freezer, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder of freeze records %s: %w", cfg.Dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of freeze records: %w", err)
	}
	if len(cfg.Program) == 0 {
		return nil, errors.New("no thaw program is configured")
	}
	return &Freezer{dir: dir, program: cfg.Program, active: map[fsm.VolumeID]bool{}}, nil
}

// Frozen reports whether the volume's filesystem is, or may be, frozen now. It must not be
// unmounted meanwhile.
func (f *Freezer) Frozen(id fsm.VolumeID) bool {
	_, err := os.Lstat(recordPath(f.dir, id))
	return !errors.Is(err, fs.ErrNotExist)
}

// Recover thaws the filesystems that leftover records name. A record whose filesystem cannot be
// thawed is kept, and named in the error.
func (f *Freezer) Recover(ctx context.Context) error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return fmt.Errorf("list the freeze records: %w", err)
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(f.dir, e.Name())
		switch filepath.Ext(e.Name()) {
		case tempSuffix: // nothing was frozen yet when it was written
			errs = append(errs, os.Remove(path))
		case recordSuffix:
			errs = append(errs, recoverRecord(ctx, path))
		}
	}
	return errors.Join(errs...)
}

// Freeze freezes the filesystem that is mounted at the path, until the given time at the latest.
// Dirty data is written before, so that the freeze itself is short. Busy: it is frozen already.
func (f *Freezer) Freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (executor.Freeze, error) {
	if !id.Valid() {
		return nil, fsm.Reject(fsm.NotFound, "%q is not a volume's id", string(id))
	}
	if !f.claim(id) {
		return nil, fsm.Reject(fsm.Busy, "%s is frozen", id)
	}
	h, err := f.freeze(ctx, id, path, until)
	if err != nil {
		f.release(id)
		return nil, err
	}
	return h, nil
}

func (f *Freezer) claim(id fsm.VolumeID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.active[id] {
		return false
	}
	f.active[id] = true
	return true
}

func (f *Freezer) release(id fsm.VolumeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.active, id)
}

func (f *Freezer) freeze(ctx context.Context, id fsm.VolumeID, path string, until time.Time) (*activeFreeze, error) {
	if err := recoverRecord(ctx, recordPath(f.dir, id)); err != nil {
		return nil, err
	}
	target, location, err := openRoot(path)
	if err != nil {
		return nil, err
	}
	h := &activeFreeze{freezer: f, target: target, exited: make(chan struct{})}
	if err = f.checkOtherFilesystem(location); err == nil {
		err = syncDirty(ctx, target)
	}
	if err == nil {
		h.record, err = f.writeRecord(id, location, until)
	}
	if err != nil {
		return nil, errors.Join(err, target.Close())
	}
	if err := h.begin(ctx); err != nil {
		return nil, errors.Join(err, target.Close(), h.record.file.Close())
	}
	go h.watch()
	return h, nil
}

// checkOtherFilesystem refuses to freeze the filesystem that the records are on.
func (f *Freezer) checkOtherFilesystem(location fsLocation) error {
	var st unix.Stat_t
	if err := unix.Stat(f.dir, &st); err != nil {
		return fmt.Errorf("look at the folder of freeze records: %w", err)
	}
	if st.Dev == location.Device {
		return fsm.Reject(fsm.Precondition, "the host's data folder is on the filesystem that is to be frozen")
	}
	return nil
}

func syncDirty(ctx context.Context, target *os.File) error {
	if err := unix.Syncfs(int(target.Fd())); err != nil {
		return fmt.Errorf("sync the filesystem on %s: %w", target.Name(), err)
	}
	return ctx.Err()
}

// writeRecord writes the record and returns it locked.
func (f *Freezer) writeRecord(id fsm.VolumeID, location fsLocation, until time.Time) (*recordFile, error) {
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	left := time.Until(until)
	if left <= 0 {
		return nil, fsm.Reject(fsm.Busy, "there is no time left to freeze %s", id)
	}
	return create(f.dir, record{Version: recordVersion, Volume: id, fsLocation: location, Boot: boot, Deadline: sinceBoot() + left, Token: uuid.NewString()})
}

// startThawer starts the thaw process and waits until it is ready. It runs in a session of its own
// and is not killed with this process.
func (f *Freezer) startThawer(ctx context.Context, file *recordFile) (*exec.Cmd, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the thaw process: %w", err)
	}
	defer r.Close()
	args := append(f.program[1:len(f.program):len(f.program)], recordPath(f.dir, file.Volume))
	child := exec.Command(f.program[0], args...) // #nosec G204 -- our own program
	child.Dir, child.Stdout = "/", w
	child.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"}
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = child.Start()
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("start the thaw process: %w", err)
	}
	if err := awaitReady(ctx, r, file.record); err != nil {
		_ = child.Process.Kill()
		_ = child.Wait()
		return nil, err
	}
	return child, nil
}

func awaitReady(ctx context.Context, r *os.File, of record) error {
	if err := r.SetReadDeadline(time.Now().Add(startTimeout)); err != nil {
		return fmt.Errorf("wait for the thaw process: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = r.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(r).ReadString('\n')
	if line = strings.TrimSpace(line); line == readyLine(of) {
		return nil
	}
	if line != "" {
		return fmt.Errorf("the thaw process is not ready: %s", line)
	}
	return fmt.Errorf("the thaw process is not ready: %w", errors.Join(ctx.Err(), err))
}
