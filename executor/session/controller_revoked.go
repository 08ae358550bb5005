package session

import (
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// controllerRole is the role whose certificates hosts meet.
const controllerRole = "controller"

// revokedVersion tells one set of revocations from another: each entry has its own index, and one that ends
// leaves fewer. A host is told also which incarnation says so.
type revokedVersion struct {
	sent        bool
	incarnation uint64
	count       int
	newest      uint64
}

// readRevoked reads the revocations where the host has not been sent them.
func (f *feed) readRevoked(state *fsm.State, u *desiredUpdate) {
	u.version, u.revoked = f.revoked, nil
	if u.cluster.FeatureLevel < fsm.Level3 {
		return
	}
	version := revokedVersion{sent: true, incarnation: u.cluster.Incarnation}
	list := &sessionpb.RevokedControllers{At: clusterEpoch(u.cluster).Proto()}
	for r := range state.Revocations() {
		version.count, version.newest = version.count+1, max(version.newest, r.Since)
		k := &sessionpb.RevokedController{Name: r.Name, Serials: r.Serials, Reason: r.Reason}
		if !r.IssuedUntil.IsZero() {
			k.IssuedUntil = r.IssuedUntil.UnixNano()
		}
		if r.Role == controllerRole {
			list.Controllers = append(list.Controllers, k)
			continue
		}
		k.Role = r.Role
		list.Others = append(list.Others, k)
	}
	if version != f.revoked {
		u.version, u.revoked = version, list
	}
}
