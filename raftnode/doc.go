// Package raftnode is one Raft member: it proposes commands on whichever member
// it is asked, reads consistently, and tells watchers what changed.
//
// # Parts
//
// Member is the API (api.go) and opens and closes the parts (open.go, open_files.go,
// member.go). Every part embeds core: configuration, storage, state machine, transport and
// raft itself. newMember makes all parts before raft starts, because raft calls some of
// them while it starts.
//
//	proposer     commands to the log, here or through the leader; feature levels
//	reader       linearizable reads, waiting for an index
//	retrier      attempts again, across changes of the leader
//	leader       the duties of one term: first command, sweeps, promotions, clock, main loop
//	checkpoints  compares the members' states; quarantine
//	membership   who the members are, and changes of that
//	joiner       this member's own admission: joining, its address, its removal
//	bootstrapper a new cluster
//	peers        connections to the other members, and their status
//
// Beside them, machine applies the log to an fsm.State and wakes the waiters of an index;
// leaderTracker follows raft's view of the leader and transfers leadership; transport
// carries Raft's messages, and mux takes them and the Member service on one TLS listener,
// told apart by ALPN. diskGuard refuses commands before the disk is full. core.fatal exits
// the process when going on could do harm: a supervisor restarts it.
//
// # Linearizable reads (S139)
//
// The leader takes its commit index, then has a quorum of voters confirm, by
// heartbeats that were sent after the read began, that none knows a higher term;
// then it waits until that index is applied. raft.VerifyLeader alone is not enough:
// it counts an ack that arrives after the call also when the ack was sent before,
// and such an ack may have waited in the socket of a process that was stopped for a
// minute. Followers ask the leader for the index. Reads that begin while a batch of
// reads is in flight share the next one.
//
// # Commands (S138, S4)
//
// A command is marshalled once, on the leader. A failure after it may have been
// appended is an unknown outcome: the same command goes to the next leader with
// the same request id, and the state machine returns its first outcome. Commands that
// wait at the same time go in batches (batchQueue), to raft on the leader and to the
// leader from elsewhere: a batch costs one write to each disk, and one message.
//
// A follower learns that something is committed with the next message of Raft, up
// to 100 ms later when there is nothing more to send. The leader's commitPipelines send
// the commit index at once, so that callers and watches on a follower wait no longer.
//
// # Connection targets (S68)
//
// An address is not a member: another process may have taken it, with another disk. So
// each connection says in its first message, a raftpb.Target, for which member of which
// cluster it is, and the acceptor answers a refusal and closes when that is not itself.
// The protocols are told apart by ALPN:
//
//	holdfast-raft/2    Raft's messages; targeted
//	holdfast-member/2  the Member service and those of Config.Services; targeted
//	holdfast-join/2    Join and Status only: a joining member knows addresses, not ids
//	holdfast-raft/1    Raft's messages of a build of feature level 1; untargeted
//	h2                 gRPC of a build of feature level 1; untargeted
//
// A dialer offers the targeted protocol and, while the cluster's level is 1, the untargeted one
// beside it, which a build of level 1 picks. An acceptor serves the old ones while the
// level is 1, and only once the cluster confirmed this process as a member under its own
// id: its configuration has it, or the leader answered its Join. So a wiped controller
// never answers as the member that it was, whichever build dials. Level 1 does not
// protect from a wiped controller that runs the old build: it takes any connection. From
// level 2 on neither end speaks the old protocols, open connections of them are closed, and
// h2 serves Join and Status only. Nothing of this is durable, so a member may go back to the
// old build until the level is raised.
//
// Beside that, a process serves nothing (no read, no proposal, not ready) before a
// configuration that has its own id was committed and received, and votes for nobody before
// it received one at all. One whose configuration has it at another address asks there
// first, several times: when a process answers under its id, one of the two runs on a copy
// of the other's data directory, and it neither votes nor campaigns nor serves until the
// leader put its address into the configuration. The leader does so once nothing answers at the
// old address, neither the Member service nor Raft's messages.
//
// # Bootstrap (S69)
//
// A cluster is bootstrapped once. In an empty data directory Bootstrap alone does so at
// once, unless the marker outside of the directory says that a cluster was bootstrapped
// from another one. With Join the member asks all those addresses first: if one of them
// knows a cluster, the member joins it under a new id; it bootstraps only when every one
// of them answered that it knows none. It waits for a peer that cannot be asked: that may
// be the only one that knows of the cluster.
//
// # Restore and recovery (S1, S24)
//
// Restore makes the data directory of a new member from a backup (package backup), Survivor.Recover from one stopped
// member with its whole log. Both make it beside the target, with the state as a Raft snapshot whose configuration has
// the new member alone, and with ReplaceIncarnation as the first entry of its log; one step puts it in its place. The
// member elects itself, and serves when that entry is applied. A former member is refused when it asks to join
// (membership.checkIncarnation), since Raft would not notice that its log is of another history.
//
// # Feature levels (S72)
//
// Members of several builds share a log at the cluster's feature level (fsm/doc.go). A
// command is stamped with the least level that it needs, and refused where it is above
// the cluster's: before it is forwarded, for the leader may be of a build that would not
// see all of it, and by the leader, before it is in the log (feature_level.go). Such a
// rejection is in no log entry. The leader raises the level only when every member of
// the configuration answers that it understands it, and adds no member meanwhile.
//
// # Exit of the process
//
// core.fatal exits with ExitRestart when the store fails or hangs, the main loop is
// blocked, Apply panicked, restores repeat without progress (the restore loop, S131), or
// the state is not the majority's (S23); with ExitRemoved when the cluster removed this
// member. A leader tries to transfer leadership first where it can wait.
package raftnode
