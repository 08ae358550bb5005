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

	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// What the protocols of the Raft listener are called in the handshake (ALPN). The
// package documentation says which is served when.
const (
	protoRaft   = "holdfast-raft/2"   // Raft's messages, to their target
	protoMember = "holdfast-member/2" // the Member service and others, to their target
	protoJoin   = "holdfast-join/2"   // Join and Status, untargeted

	// Of builds that know feature level 1 only: untargeted.
	protoRaft1   = "holdfast-raft/1"
	protoMember1 = "h2"
)

// maxTargetBytes bounds what is read before the target is accepted, in bytes.
const maxTargetBytes = 1 << 10

// targetChecker decides which connections the Raft listener accepts.
type targetChecker interface {
	// checkTarget is nil when this member is the target (S68).
	checkTarget(t *raftpb.Target) error
	// checkUntargeted is nil while untargeted connections are accepted.
	checkUntargeted() error
}

// tlsClient does the handshake of one outgoing connection. A protocol with targets is used
// only after the other end confirmed that it is the target.
func tlsClient(ctx context.Context, conn net.Conn, creds *pki.Credentials, target *raftpb.Target, protocols ...string) (*tls.Conn, error) {
	config := creds.Client(pki.Controller)
	config.NextProtos = protocols
	tlsConn := tls.Client(conn, config)
	err := tlsConn.HandshakeContext(ctx)
	if err == nil && namesTarget(tlsConn.ConnectionState().NegotiatedProtocol) {
		err = withContext(ctx, tlsConn, func() error { return sendTarget(tlsConn, target) })
	}
	if err != nil {
		_ = tlsConn.Close()
		return nil, err
	}
	return tlsConn, nil
}

func namesTarget(protocol string) bool { return protocol == protoRaft || protocol == protoMember }

// sendTarget sends the target and reads whether the other end is it.
func sendTarget(conn io.ReadWriter, target *raftpb.Target) error {
	if err := writeFrame(conn, target); err != nil {
		return fmt.Errorf("name the target: %w", err)
	}
	var answer raftpb.TargetAnswer
	if err := readFrame(conn, &answer); err != nil {
		return fmt.Errorf("name the target: %w", err)
	}
	if refusal := answer.GetRefusal(); refusal != "" {
		return fmt.Errorf("member %s is not there: %s", target.GetMemberId(), refusal)
	}
	return nil
}

// answerTarget reads the target and answers whether this is it.
func answerTarget(conn io.ReadWriter, checker targetChecker) error {
	var target raftpb.Target
	if err := readFrame(conn, &target); err != nil {
		return fmt.Errorf("read the target: %w", err)
	}
	refusal := checker.checkTarget(&target)
	answer := &raftpb.TargetAnswer{}
	if refusal != nil {
		answer.Refusal = refusal.Error()
	}
	return errors.Join(refusal, writeFrame(conn, answer))
}

// withContext runs I/O that ends with the context.
func withContext(ctx context.Context, conn net.Conn, fn func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err := fn()
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
	if len(frame) > maxTargetBytes {
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
	if size > maxTargetBytes {
		return fmt.Errorf("a message of %d bytes is too large", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return err
	}
	return proto.Unmarshal(body, msg)
}
