package dev

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
)

// maxSocketPath is the longest path of the kernel's sockaddr_un, in bytes.
const maxSocketPath = 107

// runDir is where sockets go when DIR is too long for them.
const runDir = "/run/holdfast-dev"

// layout names all paths of a developer's cluster.
type layout struct{ dir string }

func newLayout(dir string) (layout, error) {
	absolute, err := filepath.Abs(dir)
	return layout{absolute}, err
}

func (l layout) path(parts ...string) string {
	return filepath.Join(append([]string{l.dir}, parts...)...)
}

func (l layout) clusterFile() string         { return l.path("cluster.json") }
func (l layout) settingsFile() string        { return l.path("dev.json") }
func (l layout) lockFile() string            { return l.path("lock") }
func (l layout) ca() string                  { return l.path("ca") }
func (l layout) controller(id string) string { return l.path("controllers", id) }
func (l layout) nodeData(id string) string   { return l.path("nodes", id, "data") }
func (l layout) pool(id string) string       { return l.path("nodes", id, "pool") }
func (l layout) log(id string) string        { return l.path("log", id+".log") }

// pki returns the directory of one role's certificate; each process reads only its own.
func (l layout) pki(role pki.Role, name string) string {
	return l.path("pki", string(role)+"-"+name)
}

// files returns the paths of a process's or an operator's certificate.
func (l layout) files(role pki.Role, name string) pki.Files {
	return pki.FilesIn(l.pki(role, name), role, name)
}

// shortDir returns the directory below /run for the sockets of this DIR.
func (l layout) shortDir() string {
	sum := sha256.Sum256([]byte(l.dir))
	return filepath.Join(runDir, hex.EncodeToString(sum[:6]))
}

// sockets returns the directory of the sockets: in DIR when the longest path fits.
func (l layout) sockets() string {
	if dir := l.path("sock"); len(filepath.Join(dir, "control-00.sock")) <= maxSocketPath {
		return dir
	}
	return l.shortDir()
}

func (l layout) csi(id string) string      { return filepath.Join(l.sockets(), id+".sock") }
func (l layout) controlSocket() string     { return filepath.Join(l.sockets(), "control.sock") }
func (l layout) endpoint(id string) string { return "unix://" + l.csi(id) }

// ids returns the names of n processes: c1, c2, ...
func ids(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return out
}
