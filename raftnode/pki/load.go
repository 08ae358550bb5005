package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Files names a key pair and its CA on disk. All are 0600 in 0700 folders, or of a mounted Secret
// and readable by root and this process only; Load refuses them when others can read them.
type Files struct{ Cert, Key, CA string }

func (f Files) paths() []string { return []string{f.Cert, f.Key, f.CA} }

// maxFile is far above any certificate chain; what is larger is another file.
const maxFile = 1 << 20

// Credentials are a loaded key pair with its CA, re-read when the files change.
type Credentials struct {
	files Files
	id    Identity

	mu      sync.Mutex
	current *keyMaterial
	err     error

	revoked atomic.Pointer[func(Certificate) error]
	conns   conns
}

// keyMaterial is the content of the files at one time.
type keyMaterial struct {
	stamp []fileStamp
	cert  tls.Certificate
	roots *x509.CertPool
	cas   []*x509.Certificate // that roots has
	id    Identity
}

// fileStamp tells whether a file changed since it was read.
type fileStamp struct {
	inode             uint64
	size, modified, n int64
}

// Load reads and checks the files. The error names the file and the remedy.
func Load(files Files) (*Credentials, error) {
	m, err := readMaterial(files)
	if err != nil {
		return nil, err
	}
	return &Credentials{files: files, id: m.id, current: m, conns: newConns()}, nil
}

// Identity is the credentials' own.
func (c *Credentials) Identity() Identity { return c.id }

// Certificate is the credentials' own, as it is in use now.
func (c *Credentials) Certificate() Certificate {
	own, _ := ReadCertificate(c.currentMaterial().cert.Leaf) // it was read when the files were
	return own
}

// Err says why the files that are on disk now are not the ones in use: they
// changed since, and what they changed to is refused; or that the certificate in use has
// expired. Nil when all is well.
func (c *Credentials) Err() error {
	own := c.currentMaterial()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	return own.checkExpiry(c.files)
}

// currentMaterial is the material for a handshake that begins now. Files that changed are
// read again; while they cannot be used (half written, say), the last good ones are.
func (c *Credentials) currentMaterial() *keyMaterial {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamp, err := stampOf(c.files)
	if err == nil && slices.Equal(stamp, c.current.stamp) {
		c.err = nil
		return c.current
	}
	fresh, err := readMaterial(c.files)
	if err == nil && fresh.id != c.id {
		err = fmt.Errorf("certificate %s is for %s now and was for %s: restart the process to use it", c.files.Cert, fresh.id, c.id)
	}
	if c.err = err; err == nil {
		c.current = fresh
	}
	return c.current
}

func stampOf(files Files) ([]fileStamp, error) {
	at, err := locate(files.paths()...)
	if err != nil {
		return nil, err
	}
	return stampAt(at)
}

func stampAt(at []location) ([]fileStamp, error) {
	stamps := make([]fileStamp, len(at))
	for i, file := range at {
		info, err := os.Stat(file.path)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", file.given, err)
		}
		s := &stamps[i]
		s.size, s.modified = info.Size(), info.ModTime().UnixNano()
		if sys, ok := info.Sys().(*syscall.Stat_t); ok {
			s.inode, s.n = sys.Ino, sys.Ctim.Nano()
		}
	}
	return stamps, nil
}

// readMaterial reads the files and verifies the certificate as a peer would.
func readMaterial(files Files) (*keyMaterial, error) {
	content, stamp, err := readStamped(files.paths()...)
	if err != nil {
		return nil, err
	}
	m := &keyMaterial{stamp: stamp, roots: x509.NewCertPool()}
	if !m.roots.AppendCertsFromPEM(content[2]) {
		return nil, fmt.Errorf("CA file %s holds no PEM certificate", files.CA)
	}
	for _, block := range certificateBlocks(content[2]) {
		if ca, err := x509.ParseCertificate(block.Bytes); err == nil { // roots passed over the others too
			m.cas = append(m.cas, ca)
		}
	}
	if m.cert, err = pairOf(content[0], content[1]); err != nil {
		return nil, fmt.Errorf("certificate %s and key %s cannot be used together: %w; issue them again", files.Cert, files.Key, err)
	}
	if m.id, err = verifyChain(m.roots, []*x509.Certificate{m.cert.Leaf}, m.cert.Certificate[1:], x509.ExtKeyUsageAny); err != nil {
		if expired := expiredError("certificate "+files.Cert, m.cert.Leaf, err); expired != nil {
			return nil, expired
		}
		return nil, fmt.Errorf("certificate %s is not good under the CA %s: %w; issue it again", files.Cert, files.CA, err)
	}
	return m, nil
}

// checkExpiry says which file has to be renewed once the certificate has expired: files that do not
// change are not read again.
func (m *keyMaterial) checkExpiry(files Files) error {
	if leaf := m.cert.Leaf; time.Now().After(leaf.NotAfter) {
		return fmt.Errorf("certificate %s of %s expired on %s; renew it with %s", files.Cert, m.id.Actor(), leaf.NotAfter.UTC().Format(time.RFC3339), m.id.renewCommand())
	}
	return nil
}

// readPrivate reads a file that only its owner can reach.
func readPrivate(path string) ([]byte, error) {
	content, err := readTogether(path)
	if err != nil {
		return nil, err
	}
	return content[0], nil
}

// read reads one file, after it was found to be private.
func (l location) read() (content []byte, err error) {
	flags := os.O_RDONLY
	if l.mounted {
		flags |= syscall.O_NOFOLLOW // a version holds files, not links
	} else if err := checkPrivateDir(filepath.Dir(l.path)); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(l.path, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", l.given, err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at %s: %w", l.given, err)
	}
	if err := l.checkPrivate(info); err != nil {
		return nil, err
	}
	if content, err = io.ReadAll(io.LimitReader(file, maxFile)); err != nil {
		return nil, fmt.Errorf("read %s: %w", l.given, err)
	}
	return content, nil
}

// checkPrivate refuses a file that others can reach.
func (l location) checkPrivate(info fs.FileInfo) error {
	if l.mounted {
		return thisProcess().checkMounted(l.given, info)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s has mode %#o, so others than its owner can reach it: chmod 600 %s", l.given, info.Mode().Perm(), l.given)
	}
	return nil
}

func checkPrivateDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at folder %s: %w", dir, err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("folder %s has mode %#o, so others than its owner can reach the keys in it: chmod 700 %s", dir, info.Mode().Perm(), dir)
	}
	return nil
}
