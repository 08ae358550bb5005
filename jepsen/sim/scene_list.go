package sim

import (
	"slices"
	"time"
)

// scenes are all scenes. A boundary to which several lead has the first one.
var scenes = []scene{
	{
		name: "take-over", claims: []string{"pair"}, prepare: keepsSnapshots, play: takeOver,
		leadsTo: slices.Concat(aroundEach("agent.outdate", "drbd.resume-io", "mount.shutdown", "agent.end-loser", "agent.keep-loser",
			"agent.detach-disk", "drbd.detach", "agent.connect-discard", "agent.disconnect", "drbd.disconnect"),
			[]string{"agent.end-loser.down", "agent.keep-loser.asked", "agent.keep-loser.cut", "agent.keep-loser.reported", "agent.end-freeze.shut-down", "agent.end-freeze.killed"}),
	},
	{name: "busy-loser", claims: []string{"pair"}, prepare: keepsSnapshots, play: busyLoser, leadsTo: aroundEach("agent.end-freeze")},
	{name: "handler-dies", claims: []string{"pair"}, play: handlerDies, leadsTo: aroundEach("agent.resume-io")},
	{
		name: "disk-fails", claims: []string{"pair"}, play: diskFails,
		leadsTo: append(aroundEach("agent.remake-metadata", "drbd.remake-metadata"), "agent.remake-metadata.made"),
	},
	{
		name: "clone", claims: []string{"local", "local-clone"}, play: func(x *script) { x.up(x.made("local-clone")) },
		leadsTo: append(aroundEach("agent.identity", "filesystem.change-uuid", "agent.create-from", "pool.create-from-begin"), "pool.create-from.before"),
	},
	{
		name: "restored", claims: []string{"pair", "pair-restored"}, prepare: keepsSnapshots, play: func(x *script) { x.up(x.made("pair-restored")) },
		leadsTo: aroundEach("drbd.wipe-metadata", "agent.invalidate"),
	},
	{
		name: "full-copy", claims: []string{"local", "local-clone"}, prepare: func(o *options) { o.fullCopies = true }, play: func(x *script) { x.up(x.made("local-clone")) },
		leadsTo: aroundEach("pool.copy"),
	},
	{
		name: "copy-in-use", claims: []string{"local", "local-clone"}, prepare: func(o *options) { o.fullCopies = true }, play: copyInUse,
		leadsTo: []string{"pool.create-from.after", "pool.remove.before"},
	},
	{
		name: "snapshot-in-use", claims: []string{"local"}, prepare: func(o *options) { o.fullCopies = true }, play: snapshotInUse,
		leadsTo: []string{"pool.take-snapshot.after"},
	},
	{
		name: "group-in-use", claims: []string{"local", "pair"}, prepare: keepsSnapshots, play: groupInUse,
		leadsTo: aroundEach("agent.thaw", "freeze.thaw"),
	},
	{
		name: "alone-again", claims: []string{"local"}, play: aloneAgain, random: true,
		leadsTo: slices.Concat(aroundEach("agent.drain", "agent.unbind"), []string{"agent.unbind.unmounted", "agent.unbind.removed", "agent.down.done"}),
	},
	{
		name: "life", claims: []string{"pair"}, play: life,
		leadsTo: slices.Concat(aroundEach("agent.set-primary", "agent.new-uuid", "drbd.new-uuid", "drbd.set-primary", "drbd.set-secondary", "agent.down", "drbd.down",
			"agent.forget-resource", "drbd.remove-config", "agent.mount", "mount.mount", "mount.format-begin", "mount.format", "mount.remove-target", "agent.report-formatted"),
			[]string{"agent.set-primary.granted", "agent.down.done"}),
	},
	{
		name: "grow", claims: []string{"pair"}, prepare: func(o *options) { o.capacity = 1 << 36 }, play: grow,
		leadsTo: aroundEach("agent.resize", "drbd.resize", "agent.grow", "pool.expand", "agent.grow-filesystem", "filesystem.expand"),
	},
	{name: "reclaim", claims: []string{"pair"}, play: reclaimSpace, leadsTo: aroundEach("agent.trim", "agent.report-reclaimed", "filesystem.trim")},
	{name: "limits", claims: []string{"local"}, play: limits, leadsTo: aroundEach("agent.throttle", "throttle.apply")},
	{
		name: "snapshot", claims: []string{"local"}, prepare: keepsSnapshots, play: snapshot,
		leadsTo: append(aroundEach("agent.freeze", "agent.thaw", "freeze.freeze", "freeze.thaw", "agent.cut", "agent.save-snapshot", "agent.remove-snapshot", "agent.forget-snapshot",
			"pool.take-snapshot-begin", "pool.remove-snapshot"), "pool.take-snapshot.before"),
	},
	{name: "new-peer", claims: []string{"pair"}, prepare: threeHosts, play: newPeer, leadsTo: aroundEach("agent.adjust", "drbd.adjust")},
	{name: "interrupted-copy", claims: []string{"pair"}, play: interruptedCopy, leadsTo: aroundEach("drbd.invalidate")},
	{
		name: "verify", claims: []string{"pair"}, prepare: func(o *options) { o.verifyInterval = 2 * time.Second }, play: verify,
		leadsTo: aroundEach("agent.verify", "drbd.verify"),
	},
}

func keepsSnapshots(o *options) { o.fullCopies = false }

func threeHosts(o *options) { o.hosts = max(o.hosts, 3) }
