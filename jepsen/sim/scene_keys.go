package sim

import (
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/executor/agent"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// keyScenes lead to the boundaries of encrypted volumes.
var keyScenes = []scene{
	{
		name: "lost-header", claims: []string{"crypt"}, play: lostHeader,
		leadsTo: aroundEach("agent.luks-restore", "luks.restore-header"),
	},
	{
		name: "crypt-clone", claims: []string{"crypt", "crypt-clone"}, play: func(x *script) { x.up(x.made("crypt-clone")) },
		leadsTo: aroundEach("agent.luks-uuid", "luks.change-uuid"),
	},
	{
		name: "crypt-grow", claims: []string{"crypt"}, play: cryptGrow,
		leadsTo: aroundEach("agent.luks-resize", "luks.resize"),
	},
	{
		name: "rotate", claims: []string{"crypt-pair"}, play: rotateKeys,
		leadsTo: slices.Concat(named("agent.", agent.RotationFaultPoints), aroundEach("luks.add-key", "luks.kill-slot", "luks.back-up-header")),
	},
	{
		name: "crypt-life", claims: []string{"crypt"}, play: cryptLife,
		leadsTo: slices.Concat(named("agent.", agent.CryptFaultPoints), aroundEach("luks.format-begin", "luks.format", "luks.open", "luks.close", "luks.wipe-header")),
	},
}

func named(prefix string, points []string) (all []string) {
	for _, point := range points {
		all = append(all, prefix+point)
	}
	return all
}

// rotateKeys replaces the key of a volume in use several times, and has it staged again.
func rotateKeys(x *script) {
	x.use(x.claim("crypt-pair"), func(u *use) {
		for range 3 {
			x.call(u.rotate)
			x.write(u)
		}
		x.call(u.renew)
		if x.takeDown(u) {
			x.up(u)
		}
	})
}

// cryptLife makes, uses and deletes a volume.
func cryptLife(x *script) {
	x.use(x.claim("crypt"), func(u *use) {
		if x.takeDown(u) {
			x.call(u.claim.delete)
			x.pass(5 * time.Second)
		}
	})
}

// cryptGrow grows a volume in use.
func cryptGrow(x *script) {
	x.use(x.claim("crypt"), func(u *use) {
		if x.call(u.claim.expand) {
			x.call(u.expandNode)
		}
	})
}

// lostHeader: the header of a volume is lost, which nothing but an operator's decision brings back.
func lostHeader(x *script) {
	x.use(x.claim("crypt"), func(u *use) {
		if !x.takeDown(u) {
			return
		}
		v, ok := x.volume(u.claim)
		n := x.s.nodeOf(u.host)
		if !ok || v.Crypt == nil || v.Crypt.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED {
			return
		}
		x.s.checks.keys.lost[v.ID] = true
		x.s.checks.keys.losses++
		u.host.world.LoseHeader(v.ID)
		if x.up(u) {
			x.s.fail("keys: %s was staged without its header", u.claim.name)
		}
		x.call(func() *csiCall { return restoreHeader(v, n) })
		x.up(u)
	})
}

func restoreHeader(v *fsm.Volume, n *fsm.Node) *csiCall {
	return operate("restore-header "+v.Name, &fsmpb.Command{Body: &fsmpb.Command_RestoreHeader{RestoreHeader: &fsmpb.RestoreHeader{
		VolumeId: string(v.ID), NodeId: string(n.ID), HostId: string(n.Host), LuksUuid: v.Crypt.UUID,
	}}})
}
