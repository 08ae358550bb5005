package session

import (
	"github.com/holdfast-storage/holdfast/executor/session/sessionpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// controllerRole is the role whose certificates hosts meet.
const controllerRole = "controller"

// revokedVersion tells one set of revoked controllers from another: each entry has its own index, and one that ends
// leaves fewer.
type revokedVersion struct {
	sent   bool
	count  int
	newest uint64
}

// readRevoked reads the controllers' revocations where the host has not been sent them.
func (f *feed) readRevoked(state *fsm.State, u *desiredUpdate) {
	u.version, u.revoked = f.revoked, nil
	if u.cluster.FeatureLevel < fsm.Level3 {
		return
	}
	version := revokedVersion{sent: true}
	list := &sessionpb.RevokedControllers{At: clusterEpoch(u.cluster).Proto()}
	for r := range state.Revocations() {
		if r.Role != controllerRole {
			continue
		}
		version.count, version.newest = version.count+1, max(version.newest, r.Since)
		k := &sessionpb.RevokedController{Name: r.Name, Serials: r.Serials, Reason: r.Reason}
		if !r.IssuedUntil.IsZero() {
			k.IssuedUntil = r.IssuedUntil.UnixNano()
		}
		list.Controllers = append(list.Controllers, k)
	}
	if version != f.revoked {
		u.version, u.revoked = version, list
	}
}
