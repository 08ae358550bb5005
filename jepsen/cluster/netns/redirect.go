package netns

import (
	"context"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// markOfRelay is on the packets that a relay sends, so that they are not led to it again.
const markOfRelay = 0x68

// Detour leads connections that the host opens to others to a port of its own instead, where a relay listens; 0 ends that.
// Connections that are open stay as they are: Reset ends them.
func (h *Host) Detour(ctx context.Context, port int) error {
	rules := "flush chain inet holdfast detour\n"
	if port > 0 {
		rules += fmt.Sprintf("add rule inet holdfast detour meta mark != %d ip daddr %s.0%s ip daddr != { %s, %s } tcp dport 1-65535 redirect to :%d\n",
			markOfRelay, subnet, width, h.address, operator, port)
	}
	return h.nft(ctx, rules)
}

// DialMarked connects from the host past its detour, as a relay must.
func (h *Host) DialMarked(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		controlled := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, markOfRelay) })
		if controlled != nil {
			return controlled
		}
		return err
	}}
	return h.dial(ctx, dialer, network, address)
}

// originalDestination is linux's SO_ORIGINAL_DST, which x/sys does not name.
const originalDestination = 80

// Destination is where a connection that came by a detour was meant to go.
func Destination(conn *net.TCPConn) (string, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return "", err
	}
	var address *unix.IPv6Mreq // of the same size as the sockaddr_in that the kernel writes
	controlled := raw.Control(func(fd uintptr) {
		address, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, originalDestination)
	})
	if controlled != nil {
		return "", controlled
	}
	if err != nil {
		return "", fmt.Errorf("ask where a connection was meant to go: %w", err)
	}
	b := address.Multiaddr
	return fmt.Sprintf("%d.%d.%d.%d:%d", b[4], b[5], b[6], b[7], int(b[2])<<8|int(b[3])), nil
}
