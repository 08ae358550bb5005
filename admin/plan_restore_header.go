package admin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// restoreHeader is the verb that has a host restore a LUKS header.
const restoreHeader = "restore-header"

// backupTimeout is how long hosts may take to say what they have a backup of.
const backupTimeout = 5 * time.Second

// HeaderBackup is a host's backup of a LUKS header.
type HeaderBackup struct {
	UUID string // of the header; empty: there is no backup
	// Generation is how often the log knew the key to be replaced when the backup was taken.
	Generation uint64
}

// headerBackup is the backup that a host has, or why it did not say.
type headerBackup struct {
	HeaderBackup
	err error
}

// restores reports whether it is of the volume's header and of its present key: an older one would bring a key back
// that was replaced (S65).
func (b *headerBackup) restores(c *fsm.Crypt) bool {
	return b.UUID == c.UUID && b.Generation >= c.KeyGeneration
}

// findHeaderBackups asks the hosts of a volume's replicas for their backups of its header, and chooses the node
// where the request names none. Other verbs need nothing of it.
func (s *Server) findHeaderBackups(ctx context.Context, req *adminpb.PlanRequest) (*adminpb.PlanRequest, map[fsm.NodeID]headerBackup, error) {
	if req.GetVerb() != restoreHeader {
		return req, nil, nil
	}
	var v *fsm.Volume
	_, err := s.Cluster.Read(ctx, func(st *fsm.State) error {
		v = findVolume(st, req.GetVolume())
		return nil
	})
	switch {
	case err != nil:
		return nil, nil, err
	case v == nil:
		return nil, nil, fsm.Reject(fsm.NotFound, "no volume has the id or name %q", req.GetVolume())
	case v.Crypt == nil:
		return nil, nil, fsm.Reject(fsm.Precondition, "volume %s is not encrypted: it has no LUKS header", v.ID)
	}
	backups := s.headerBackups(ctx, v)
	if req.GetNode() == "" {
		req = proto.CloneOf(req)
		req.Node = string(nodeToRestoreOn(v, backups))
	}
	return req, backups, nil
}

// headerBackups asks the hosts at the same time.
func (s *Server) headerBackups(ctx context.Context, v *fsm.Volume) map[fsm.NodeID]headerBackup {
	ctx, cancel := context.WithTimeout(ctx, backupTimeout)
	defer cancel()
	backups := map[fsm.NodeID]headerBackup{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range v.Replicas {
		node := v.Replicas[i].Node
		wg.Go(func() {
			backup, err := s.Hosts.HeaderBackup(ctx, node, v.ID)
			mu.Lock()
			defer mu.Unlock()
			backups[node] = headerBackup{HeaderBackup: backup, err: err}
		})
	}
	wg.Wait()
	return backups
}

// nodeToRestoreOn prefers, of the nodes with a backup, the one that the volume is published to.
func nodeToRestoreOn(v *fsm.Volume, backups map[fsm.NodeID]headerBackup) (chosen fsm.NodeID) {
	has := func(node fsm.NodeID) bool { b := backups[node]; return b.restores(v.Crypt) }
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if chosen == "" || has(r.Node) && (v.Publication(r.Node) != nil || !has(chosen)) {
			chosen = r.Node
		}
	}
	return chosen
}

// planRestoreHeader has a host write its backup of a header that is missing, when it stages the volume (S62).
func (p *planner) planRestoreHeader() error {
	v := findVolume(p.state, p.req.GetVolume())
	if v == nil || v.Crypt == nil {
		return fsm.Reject(fsm.NotFound, "no encrypted volume has the id or name %q any more", p.req.GetVolume())
	}
	if n, _ := p.state.Node(p.nodeID()); n.Host != p.host {
		return p.wrongHost(n)
	}
	t, backup := step{action: restoreHeader, volume: v}, p.backups[p.nodeID()]
	switch h := v.HeaderRestore; {
	case stagedOn(v) != "":
		t.state, t.detail = stepDone, fmt.Sprintf("the volume is staged on node %s: its header is there", stagedOn(v))
	case h != nil && h.Host == p.host:
		t.state, t.detail = stepWaiting, "this node writes its backup when the volume is staged there the next time"
	case backup.err != nil:
		t.state, t.detail = stepBlocked, "this node cannot be asked for its backup: "+Reason(backup.err)
	case backup.UUID == "":
		t.state, t.detail = stepBlocked, "this node has no backup of the header"+p.otherBackup(v)
	case backup.UUID != v.Crypt.UUID:
		t.state, t.detail = stepBlocked, fmt.Sprintf("the backup on this node is of header %s, not of %s that the log knows%s", backup.UUID, v.Crypt.UUID, p.otherBackup(v))
	case !backup.restores(v.Crypt):
		t.state, t.detail = stepBlocked, fmt.Sprintf("the backup on this node is of key generation %d, the volume's is %d: it would bring back a key that was replaced%s", backup.Generation, v.Crypt.KeyGeneration, p.otherBackup(v))
	default:
		p.addRestoreHeader(t, v)
		return nil
	}
	p.add(t)
	return nil
}

func (p *planner) addRestoreHeader(t step, v *fsm.Volume) {
	t.detail = fmt.Sprintf("where header %s is missing, this node writes its backup of it; a header that is there stays as it is", v.Crypt.UUID)
	accepted := p.addCommand(t, &fsmpb.Command{Body: &fsmpb.Command_RestoreHeader{RestoreHeader: &fsmpb.RestoreHeader{
		VolumeId: string(v.ID), NodeId: string(p.nodeID()), HostId: string(p.host), LuksUuid: v.Crypt.UUID, Reason: p.req.GetReason(),
	}}})
	if accepted {
		p.add(step{action: "stage", state: stepFollows, volume: v, detail: "it is done when the volume is staged on this node, with its passphrase; a pod that waits for it repeats that by itself"})
	}
}

// otherBackup names another node that has the right one.
func (p *planner) otherBackup(v *fsm.Volume) string {
	for i := range v.Replicas {
		r := &v.Replicas[i]
		if b := p.backups[r.Node]; r.Node != p.nodeID() && b.restores(v.Crypt) {
			return fmt.Sprintf("; node %s has one", r.Node)
		}
	}
	return "; without one the data cannot be read"
}

// stagedOn is a node where the volume is staged, empty when there is none.
func stagedOn(v *fsm.Volume) fsm.NodeID {
	publications := v.Publications()
	for i := range publications {
		if s := publications[i].Staging; s != nil && s.Done {
			return publications[i].Node
		}
	}
	return ""
}
