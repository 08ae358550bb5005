package admin

import (
	"testing"
	"time"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// BundleEnv is a cluster with some of everything, for the tests of bundles, which cannot be in this package.
type BundleEnv struct {
	*env
	volumes int
}

// NewBundleEnv makes it.
func NewBundleEnv(t *testing.T) *BundleEnv {
	w := wellEnv(t)
	w.server.AuditPause = time.Nanosecond
	b := &BundleEnv{env: w}
	id := w.create(100, true)
	w.stage(id, "/staging/100")
	w.snapshot(id, true)
	w.replicate(101)
	w.items["n1"] = append(w.items["n1"], Item{Kind: "image", ID: "hf-00000000-0000-4000-8000-0000000000ff", Path: "/pool/volumes/orphan.img"})
	w.apply(&fsmpb.Command{Actor: "controller/c1", Body: &fsmpb.Command_PublishVolume{PublishVolume: &fsmpb.PublishVolume{VolumeId: "hf-00000000-0000-4000-8000-0000000000fe", NodeId: "n1"}}})
	return b
}

// Serve is the cluster's server.
func (b *BundleEnv) Serve() *Server { return b.server }

// Index is the newest index.
func (b *BundleEnv) Index() uint64 { return b.index }

// Work makes one more volume, which is several entries.
func (b *BundleEnv) Work() {
	b.volumes++
	b.create(b.volumes, true)
}

// Store has a Raft snapshot stored.
func (b *BundleEnv) Store() { b.store() }

// Damage has the stored Raft snapshots be unreadable: the controller says so, or it sends something else.
func (b *BundleEnv) Damage(said error) {
	b.storedErr = said
	for index := range b.stored {
		b.stored[index] = []byte("no dump")
	}
}

// LoseQuorum has every read fail.
func (b *BundleEnv) LoseQuorum() { b.quorum = errNoQuorum }

// Forget has the journal begin later.
func (b *BundleEnv) Forget() { b.log = b.log[3:] }
