package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Capture keeps the frames that one guest sends and receives on one network.
type Capture struct {
	socket *os.File
	ended  chan struct{}

	mu     sync.Mutex
	frames bytes.Buffer
	err    error
}

// Capture begins to keep a guest's frames in memory, one after the other with nothing between them. The caller ends it.
func (g *Guest) Capture(n Network) (*Capture, error) {
	device, err := net.InterfaceByName(g.lab.paths.Tap(letters[n], g.Index))
	if err != nil {
		return nil, fmt.Errorf("capture the %s network of %s: %w", n, g.Name(), err)
	}
	socket, err := packetSocket(device.Index)
	if err != nil {
		return nil, fmt.Errorf("capture the %s network of %s: %w", n, g.Name(), err)
	}
	c := &Capture{socket: socket, ended: make(chan struct{})}
	go c.read()
	return c, nil
}

// packetSocket gets all frames of a device, those that the host sends to it too.
func packetSocket(device int) (*os.File, error) {
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in the network's byte order
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(all))
	if err != nil {
		return nil, err
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) // a smaller one loses frames, which End reports
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: device}); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "capture"), nil
}

func (c *Capture) read() {
	defer close(c.ended)
	frame := make([]byte, 1<<16)
	for {
		n, err := c.socket.Read(frame)
		c.mu.Lock()
		c.frames.Write(frame[:max(n, 0)])
		c.err = err
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// Len is how many bytes were captured until now.
func (c *Capture) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames.Len()
}

// End ends the capture and answers all frames, or an error when the kernel dropped some of them.
func (c *Capture) End() ([]byte, error) {
	dropped, err := c.dropped()
	err = errors.Join(err, c.socket.Close())
	<-c.ended
	if !errors.Is(c.err, os.ErrClosed) {
		err = errors.Join(err, c.err)
	}
	if dropped > 0 {
		err = errors.Join(err, fmt.Errorf("the kernel dropped %d frames of the capture", dropped))
	}
	return c.frames.Bytes(), err
}

func (c *Capture) dropped() (count uint32, err error) {
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return 0, err
	}
	failed := raw.Control(func(fd uintptr) {
		var stats *unix.TpacketStats
		if stats, err = unix.GetsockoptTpacketStats(int(fd), unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			count = stats.Drops
		}
	})
	return count, errors.Join(err, failed)
}
