package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace that a thread of this process holds.
type namespace struct {
	file *os.File    // of the namespace
	work chan func() // executed by its thread
	end  sync.Once
}

// newNamespace makes a namespace with its loopback interface up.
func newNamespace(ctx context.Context) (*namespace, error) {
	n := &namespace{work: make(chan func())}
	made := make(chan error, 1)
	onThread(func() { n.live(made) })
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	if err := n.run(ctx, "", "ip", "link", "set", "lo", "up"); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// onThread does something on a thread that ends with it. The first thread of a process does not end, and what its
// namespace is the whole process's is taken to be: while it is held here, another thread takes over.
func onThread(do func()) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(locked)
		if unix.Gettid() == unix.Getpid() {
			onThread(do)
			runtime.UnlockOSThread()
			return
		}
		locked <- struct{}{}
		do()
	}()
	<-locked
}

// live is the thread of a namespace. It must outlive what is started in it: the kernel sends a parent-death
// signal when the thread that started the child ends.
func (n *namespace) live(made chan<- error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		made <- err
		return
	}
	var err error
	n.file, err = os.Open("/proc/thread-self/ns/net")
	made <- err
	if err != nil {
		return
	}
	for do := range n.work {
		do()
	}
}

// path names the namespace to other programs while this process lives.
func (n *namespace) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.file.Fd()) }

// start starts a command in the namespace.
func (n *namespace) start(cmd *exec.Cmd) error {
	result := make(chan error, 1)
	n.work <- func() { result <- cmd.Start() }
	return <-result
}

// enter does something on a thread of its own in the namespace; unlike start it may take long.
func (n *namespace) enter(do func() error) error {
	result := make(chan error, 1)
	onThread(func() {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			result <- fmt.Errorf("enter a network namespace: %w", err)
			return
		}
		result <- do()
	})
	return <-result
}

// run runs a program to its end, with input.
func (n *namespace) run(ctx context.Context, input string, argv ...string) error {
	_, err := n.output(ctx, input, argv...)
	return err
}

// output runs a program to its end and answers what it printed.
func (n *namespace) output(ctx context.Context, input string, argv ...string) (string, error) {
	var out, problems strings.Builder
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &problems
	if err := n.start(cmd); err != nil {
		return "", fmt.Errorf("start %s: %w", argv[0], err)
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w: %s%s", strings.Join(argv, " "), err, strings.TrimSpace(problems.String()), input)
	}
	return out.String(), nil
}

// dial connects from within the namespace.
func (n *namespace) dial(ctx context.Context, dialer *net.Dialer, network, address string) (conn net.Conn, err error) {
	entered := n.enter(func() error {
		conn, err = dialer.DialContext(ctx, network, address)
		return nil
	})
	if entered != nil {
		return nil, entered
	}
	return conn, err
}

// listen listens within the namespace.
func (n *namespace) listen(ctx context.Context, network, address string) (listener net.Listener, err error) {
	entered := n.enter(func() error {
		listener, err = (&net.ListenConfig{}).Listen(ctx, network, address)
		return nil
	})
	if entered != nil {
		return nil, entered
	}
	return listener, err
}

// close lets the namespace go; it may be repeated. The kernel ends it with the last process in it.
func (n *namespace) close() {
	n.end.Do(func() {
		close(n.work)
		_ = n.file.Close() // a file of the kernel's, only held
	})
}
