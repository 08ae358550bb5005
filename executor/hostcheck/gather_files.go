package hostcheck

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// dataDir looks at the data folder. Who has locked it is read from the kernel's list of locks: to try the lock
// would keep a process that starts just then from getting it.
func (g *Gatherer) dataDir() *DataDir {
	if g.DataDir == "" {
		return nil
	}
	d := &DataDir{Path: g.DataDir}
	info, err := os.Stat(g.path(g.DataDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.Missing = true
		return d
	case err != nil:
		d.Err = reason(err)
		return d
	}
	d.Mode = uint32(info.Mode().Perm())
	if d.Holder, err = g.lockHolder(filepath.Join(g.path(g.DataDir), g.LockFile)); err != nil {
		d.LockErr = reason(err)
	}
	if g.Identity == nil {
		return d
	}
	if d.Identity, err = g.Identity(g.path(g.DataDir)); err != nil {
		d.Err = reason(err)
	}
	return d
}

// lockHolder is the process that has an flock on a file; 0: none that this process can see.
func (g *Gatherer) lockHolder(path string) (int, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return 0, nil
		}
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	locks, err := os.ReadFile(g.path("proc/locks"))
	if err != nil {
		return 0, fmt.Errorf("read the kernel's locks: %w", err)
	}
	dev := uint64(st.Dev) //nolint:unconvert // its type differs between architectures
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), st.Ino)
	for line := range strings.Lines(string(locks)) {
		fields := strings.Fields(line)
		if len(fields) >= 6 && fields[1] == "FLOCK" && fields[5] == file {
			return strconv.Atoi(fields[4])
		}
	}
	return 0, nil
}

// limits are those of the process that holds the data folder; else those of this one, which tell what a process
// that is started from here would have.
func (g *Gatherer) limits(d *DataDir) *Limits {
	process := "self"
	l := &Limits{}
	if d != nil && d.Holder > 0 {
		l.PID, process = d.Holder, strconv.Itoa(d.Holder)
	}
	for line := range strings.Lines(g.text("proc/" + process + "/limits")) {
		rest, ok := strings.CutPrefix(line, "Max open files")
		if !ok {
			continue
		}
		soft, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if soft == "unlimited" {
			l.Files = 1 << 20
			return l
		}
		files, err := strconv.ParseUint(soft, 10, 64)
		if err == nil {
			l.Files = files
			return l
		}
	}
	l.Err = "the kernel did not show them"
	return l
}

func (g *Gatherer) spaces() (all []Space) {
	for _, path := range append([]string{g.DataDir}, g.Folders...) {
		if path != "" {
			all = append(all, g.space(path))
		}
	}
	return all
}

// space looks at the folder, or where it is not made yet at the one that it will be in.
func (g *Gatherer) space(path string) Space {
	s := Space{Path: path}
	at := g.path(path)
	for at != g.path("/") {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		at = filepath.Dir(at)
	}
	st, err := g.Statfs(at)
	if err != nil {
		s.Err = reason(err)
		return s
	}
	s.Free, s.Total = int64(st.Bavail)*st.Bsize, int64(st.Blocks)*st.Bsize //nolint:gosec // a disk's size
	s.FreeInodes, s.Inodes = st.Ffree, st.Files
	return s
}

// certs looks at the certificate, its key and its CA. Of the key only that it can be read is learnt.
func (g *Gatherer) certs() (all []Cert) {
	for _, file := range []struct{ kind, path string }{{"certificate", g.Cert}, {"key", g.Key}, {"CA", g.CA}} {
		if file.path != "" {
			all = append(all, g.cert(file.kind, file.path))
		}
	}
	return all
}

func (g *Gatherer) cert(kind, path string) Cert {
	c := Cert{Kind: kind, Path: path, Mounted: strings.HasPrefix(g.link(path), "..data/")}
	if dir, err := os.Stat(filepath.Dir(g.path(path))); err == nil {
		c.DirMode = uint32(dir.Mode().Perm())
	}
	info, err := os.Stat(g.path(path))
	if err != nil {
		c.Err = reason(err)
		return c
	}
	c.Mode = uint32(info.Mode().Perm())
	content, err := os.ReadFile(g.path(path))
	if err != nil {
		c.Err = reason(err)
		return c
	}
	if kind == "key" {
		if block, _ := pem.Decode(content); block == nil {
			c.Err = "it holds no PEM key"
		}
		return c
	}
	c.NotAfter, err = earliestEnd(content)
	if err != nil {
		c.Err = reason(err)
	}
	return c
}

// earliestEnd is when the first of a file's certificates ends.
func earliestEnd(content []byte) (end time.Time, err error) {
	for block, rest := pem.Decode(content); block != nil; block, rest = pem.Decode(rest) {
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return end, errors.New("it holds no certificate that can be read")
		}
		if end.IsZero() || cert.NotAfter.Before(end) {
			end = cert.NotAfter
		}
	}
	if end.IsZero() {
		return end, errors.New("it holds no PEM certificate")
	}
	return end, nil
}

// reason is an error without the path, which the finding names already.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// latency measures durable writes of 4 KiB into a file of its own below the data folder, or where that is to
// be made, and removes it.
func (g *Gatherer) latency() *Latency {
	if g.DataDir == "" {
		return nil
	}
	dir := g.path(g.DataDir)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return g.latencyIn(dir)
}

// poolDisks measures pools of files, in the folder of their unfinished files; a pool that is not made yet has none.
func (g *Gatherer) poolDisks() (all []Latency) {
	for _, folder := range g.Folders {
		dir := filepath.Join(g.path(folder), "tmp")
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		l := g.latencyIn(dir)
		l.Path = folder
		all = append(all, *l)
	}
	return all
}

func (g *Gatherer) latencyIn(dir string) *Latency {
	took, err := g.syncTimes(dir)
	l := &Latency{Writes: len(took), Buckets: histogram(took)}
	if err != nil {
		l.Err = reason(err)
	}
	if len(took) > 0 {
		slices.Sort(took)
		l.P50, l.P99, l.Max = took[len(took)/2], took[(len(took)*99)/100], took[len(took)-1]
	}
	return l
}

func (g *Gatherer) syncTimes(dir string) (took []time.Duration, err error) {
	file, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	writes := g.Writes
	if writes == 0 {
		writes = 200
	}
	page := make([]byte, 4096)
	for began := time.Now(); len(took) < writes && time.Since(began) < probeBudget; {
		start := time.Now()
		if _, err := file.WriteAt(page, int64(len(took))*int64(len(page))); err != nil {
			return took, err
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return took, fmt.Errorf("sync %s: %w", file.Name(), err)
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// reach dials the controllers, side by side.
func (g *Gatherer) reach(ctx context.Context) []Reach { return ReachAll(ctx, g.Dial, g.Endpoints) }

// ReachAll dials addresses, side by side, pairsAtOnce of them at a time.
func ReachAll(ctx context.Context, dial func(context.Context, string) error, addresses []string) []Reach {
	all := make([]Reach, len(addresses))
	turn := make(chan struct{}, pairsAtOnce)
	var wg sync.WaitGroup
	for i, address := range addresses {
		wg.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			start := time.Now()
			all[i] = Reach{Address: address}
			if err := dial(ctx, address); err != nil {
				all[i].Err = err.Error()
				return
			}
			all[i].Took = time.Since(start)
		})
	}
	wg.Wait()
	return all
}
