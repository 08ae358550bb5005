package raftnode

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// What the protocols of the Raft listener are called in the handshake (ALPN). The
// package documentation says which is served when.
const (
	protoRaft   = "holdfast-raft/2"   // Raft's messages, to the member that is named
	protoMember = "holdfast-member/2" // the Member service and others, to the member that is named
	protoJoin   = "holdfast-join/2"   // Join and Status, to whoever is at the address

	// Of builds that know feature level 1 only: nobody is named.
	protoRaft1   = "holdfast-raft/1"
	protoMember1 = "h2"
)

// largestTarget bounds what is read before a connection belongs to anybody, in bytes.
const largestTarget = 1 << 10

// acceptor decides for whom the Raft listener takes connections.
type acceptor interface {
	// acceptsTarget is nil when this member is the target (S68).
	acceptsTarget(t *raftpb.Target) error
	// acceptsUnnamed is nil while connections that name nobody are for this member.
	acceptsUnnamed() error
}

// acceptsTarget compares the target with this member. One that does not know its cluster
// yet is told by the id alone, which is random and never used twice: who knows the id of
// a new member has it from its Join, or from an operator's visit. The first cluster that
// names it is its cluster for ever.
func (m *Member) acceptsTarget(t *raftpb.Target) error {
	cluster := m.storage.clusterID()
	switch {
	case t.GetMemberId() != m.id:
		return fmt.Errorf("this is member %s, not %s", m.id, t.GetMemberId())
	case cluster == "" && t.GetClusterId() == "":
		return errors.New("the connection names no cluster")
	case cluster == "" && m.founding.Load():
		return errors.New("this member is to make a cluster of its own")
	case cluster == "" && !m.configured():
		return m.belong(t.GetClusterId())
	case cluster != "" && t.GetClusterId() != cluster:
		return fmt.Errorf("this member belongs to cluster %s, not %s", cluster, t.GetClusterId())
	}
	return nil
}

// acceptsUnnamed: only while a build that names nobody may be a member, and only
// after the cluster said that this member is one, under the id that it has.
func (m *Member) acceptsUnnamed() error {
	if level := m.machine.cluster().FeatureLevel; level >= fsm.Level2 {
		return fmt.Errorf("at feature level %d a connection names its member: upgrade the controller that dials", level)
	}
	if !m.joined.Load() && !m.configured() {
		return errors.New("this member is in no configuration that it knows")
	}
	return nil
}

// configured tells whether the newest configuration here, committed or not, has this member.
func (m *Member) configured() bool {
	_, in := m.serverOf(m.id)
	return in
}

// target is a member of this cluster, as connections to it name it.
func (m *Member) target(id string) *raftpb.Target {
	return &raftpb.Target{ClusterId: m.storage.clusterID(), MemberId: id}
}

// dialsUnnamed tells whether a member may still be of a build that knows no targets.
func (m *Member) dialsUnnamed() bool { return m.machine.cluster().FeatureLevel < fsm.Level2 }

// secure does the handshake of one outgoing connection. A protocol that names its
// target is in use only when the other end said that it is the target.
func secure(ctx context.Context, raw net.Conn, creds *pki.Credentials, target *raftpb.Target, protocols ...string) (*tls.Conn, error) {
	config := creds.Client(pki.Controller)
	config.NextProtos = protocols
	conn := tls.Client(raw, config)
	err := conn.HandshakeContext(ctx)
	if err == nil && named(conn.ConnectionState().NegotiatedProtocol) {
		err = under(ctx, conn, func() error { return nameTarget(conn, target) })
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func named(protocol string) bool { return protocol == protoRaft || protocol == protoMember }

// nameTarget sends the target and reads whether it was met.
func nameTarget(conn io.ReadWriter, target *raftpb.Target) error {
	if err := writeFrame(conn, target); err != nil {
		return fmt.Errorf("name the target: %w", err)
	}
	var answer raftpb.TargetAnswer
	if err := readFrame(conn, &answer); err != nil {
		return fmt.Errorf("name the target: %w", err)
	}
	if why := answer.GetRefusal(); why != "" {
		return fmt.Errorf("member %s is not there: %s", target.GetMemberId(), why)
	}
	return nil
}

// takeTarget reads the target and answers whether this is it.
func takeTarget(conn io.ReadWriter, who acceptor) error {
	var target raftpb.Target
	if err := readFrame(conn, &target); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	refusal := who.acceptsTarget(&target)
	answer := &raftpb.TargetAnswer{}
	if refusal != nil {
		answer.Refusal = refusal.Error()
	}
	return errors.Join(refusal, writeFrame(conn, answer))
}

// under does I/O that ends with the context.
func under(ctx context.Context, conn net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := do()
	if !stop() {
		return errors.Join(context.Cause(ctx), err)
	}
	return err
}

// writeFrame writes a message behind its length.
func writeFrame(w io.Writer, msg proto.Message) error {
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 2), msg)
	if err != nil {
		return err
	}
	if len(frame) > largestTarget {
		return fmt.Errorf("a message of %d bytes is too large", len(frame))
	}
	binary.BigEndian.PutUint16(frame, uint16(len(frame)-2)) //nolint:gosec // bounded above
	_, err = w.Write(frame)
	return err
}

// readFrame reads one message and nothing behind it.
func readFrame(r io.Reader, msg proto.Message) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint16(head[:])
	if size > largestTarget {
		return fmt.Errorf("a message of %d bytes is too large", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return proto.Unmarshal(body, msg)
}
