// Package raftnode is one Raft member: it proposes commands on whichever member
// it is asked, reads consistently, and tells watchers what changed.
//
// # Who does what
//
// machine folds the log into an fsm.State and tells who waits for an index.
// transport carries Raft's messages and mux takes them and the Member service on one
// TLS listener, told apart by ALPN. leadership knows who leads; while this member
// does, leaderTerm runs its duties: the first command, promotions, checkpoints,
// the watch on its own clock and on its own main loop. folder guard, quarantine
// and fatal end the process when going on could do harm: a supervisor restarts it.
//
// # Linearizable reads (S139)
//
// The leader takes its commit index, then has a quorum of voters confirm, by
// heartbeats that were sent after the read began, that none knows a higher term;
// then it waits until that index is applied. raft.VerifyLeader alone does not do:
// it counts a heartbeat's answer that arrives after the question, also when it
// was sent before, and such an answer may have waited in the socket of a process
// that was stopped for a minute. Followers ask the leader for the index. Reads that
// begin while a round is under way share the next one.
//
// # Commands (S138, S4)
//
// A command is marshalled once, on the leader. A failure after it may have been
// appended is an unknown outcome: the same command goes to the next leader with
// the same request id, and the state gives it its first answer. Commands that wait
// together go in groups (queue), to raft on the leader and to the leader from
// elsewhere: a group costs one write to each disk, and one message.
//
// A follower learns that something is committed with the next message of Raft, up
// to 100 ms later when there is nothing more to send. The leader's lines send that
// message at once, so that who waits or watches on a follower waits no longer.
//
// # Whom a connection is for (S68)
//
// An address is not a member: another process may have taken it, with another disk. So
// each connection says in its first message, a raftpb.Target, for which member of which
// cluster it is, and the acceptor answers a refusal and closes when that is not itself.
// The protocols are told apart by ALPN:
//
//	holdfast-raft/2    Raft's messages; names its target
//	holdfast-member/2  the Member service and those of Config.Services; names its target
//	holdfast-join/2    Join and Status only: who joins knows an address, not a member
//	holdfast-raft/1    Raft's messages of a build of feature level 1; names nobody
//	h2                 gRPC of a build of feature level 1; names nobody
//
// A dialer asks for the first and, while the cluster's level is 1, offers the old one
// beside it: a build of level 1 picks that. An acceptor serves the old ones while the
// level is 1, and only once the cluster said that this process is a member under its own
// id: its configuration has it, or the leader answered its Join. So a wiped controller
// answers nobody in the name of the one that it was, whichever build dials. What level 1
// does not protect is a wiped controller that runs the old build: it takes any
// connection. From level 2 on neither end speaks the old protocols, connections that
// were open are closed, and Join and Status are all that h2 is answered. Nothing of
// this is durable, so a member may go back to the old build until the level is raised.
//
// Beside that, a process serves nothing (no read, no proposal, not ready) before a
// configuration that has its own id was committed and received, and gives no vote before
// it received one at all. One whose configuration has it at another address asks there
// first, several times: when a process answers under its id, one of the two runs on a copy
// of the other's data folder, and it neither votes nor stands nor serves until the leader
// took its address into the configuration.
//
// # Founding (S69)
//
// A cluster is made once. In an empty folder Bootstrap alone makes it at once, unless the
// marker outside of the folder says that this was done from another folder. With Join the
// member asks all those addresses first: a cluster that one of them knows is joined, under
// a new id; one is made only when every one of them said that it knows none. A peer that
// cannot be asked is waited for: it may be the only one that remembers.
//
// # Feature levels (S72)
//
// Members of several builds share a log at the cluster's feature level (fsm/doc.go). A
// command is stamped with the least level that it needs, and refused where it is above
// the cluster's: before it is forwarded, for the leader may be of a build that would not
// see all of it, and by the leader, before it is in the log (level.go). Such a refusal is
// a rejection that no entry holds. The leader raises the level only when every member of
// the configuration says that it understands it, and takes nobody in meanwhile.
//
// # The end of a member
//
// fatal ends the process with ExitRestart when the store fails or hangs, the main
// loop is blocked, a fault happened in Apply, a Raft snapshot is installed over and
// over (S131), or the state is not the majority's (S23); with ExitRemoved when the
// cluster removed it. A leader asks for the transfer first where it can wait.
package raftnode
