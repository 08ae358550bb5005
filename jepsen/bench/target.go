//go:build bench

package bench

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/proto"

	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// The ALPN names of the Raft listener's protocols; package raftnode documents them.
const (
	protoMember = "holdfast-member/2"
	protoJoin   = "holdfast-join/2"
)

// dialMember connects to the Member service of the controller at an address, with that controller as
// the connection's target, as its peers do (S68).
func dialMember(ctx context.Context, creds *pki.Credentials, address string) (raftpb.MemberClient, func(), error) {
	visit, leave, err := dialWith(memberCredentials{creds: creds}, address)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	who, err := visit.Status(ctx, &raftpb.StatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, nil, fmt.Errorf("ask the controller at %s who it is: %w", address, err)
	}
	return dialWith(memberCredentials{creds: creds, target: &raftpb.Target{ClusterId: who.GetClusterId(), MemberId: who.GetMemberId()}}, address)
}

func dialWith(creds credentials.TransportCredentials, address string) (raftpb.MemberClient, func(), error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return nil, nil, err
	}
	return raftpb.NewMemberClient(conn), func() { _ = conn.Close() }, nil
}

// memberCredentials are gRPC's credentials for connections to one member; without a target they connect
// to any member at the address, which then answers Status only.
type memberCredentials struct {
	creds  *pki.Credentials
	target *raftpb.Target
}

func (m memberCredentials) ClientHandshake(ctx context.Context, _ string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	config := m.creds.Client(pki.Controller)
	config.NextProtos = []string{protoJoin}
	if m.target != nil {
		config.NextProtos = []string{protoMember}
	}
	conn := tls.Client(raw, config)
	err := conn.HandshakeContext(ctx)
	if err == nil && m.target != nil {
		err = m.name(conn)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	info := credentials.TLSInfo{State: conn.ConnectionState(), CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	return conn, info, nil
}

// name sends the target's name, prefixed by its length, and reads whether the server accepts it.
func (m memberCredentials) name(conn io.ReadWriter) error {
	frame, err := proto.MarshalOptions{}.MarshalAppend(make([]byte, 2), m.target)
	if err != nil {
		return err
	}
	binary.BigEndian.PutUint16(frame, uint16(len(frame)-2)) //nolint:gosec // two ids
	if _, err := conn.Write(frame); err != nil {
		return err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	text := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, text); err != nil {
		return err
	}
	answer := &raftpb.TargetAnswer{}
	if err := proto.Unmarshal(text, answer); err != nil {
		return err
	}
	if why := answer.GetRefusal(); why != "" {
		return errors.New(why)
	}
	return nil
}

func (m memberCredentials) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("these credentials are for clients only")
}

func (m memberCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}

func (m memberCredentials) Clone() credentials.TransportCredentials { return m }

func (m memberCredentials) OverrideServerName(string) error { return nil }
