package lab

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// ClusterConfig describes the Holdfast cluster that runs in a lab.
type ClusterConfig struct {
	// Controllers run in the first guests; 0 means 3, or as many as there are guests.
	Controllers int
	// Nodes run in the first guests; 0 means all.
	Nodes int
	// Pool is each node's --pool, such as lvm:vg/pool. Empty: files on the state disk.
	Pool string
	// ControllerArgs and NodeArgs are further flags, after the lab's own.
	ControllerArgs, NodeArgs []string
	// NodeArgsOf are further flags of one guest's node, such as its replication address, ControllerArgsOf
	// those of its controller.
	NodeArgsOf, ControllerArgsOf func(*Guest) []string
	// CertificatesAge is how long ago the certificates were issued: guests whose clocks are behind by less take them.
	CertificatesAge time.Duration
	// Setup is a script that runs in each node's guest before its node starts for the
	// first time, for pools.
	Setup string
}

// The CSI sockets in a guest.
const (
	ControllerSocket = "/run/holdfast/controller.sock"
	NodeSocket       = "/run/holdfast/node.sock"
)

// Ports on the API network.
const (
	raftPort = "9800"
	apiPort  = "9802"
)

// Cluster is Holdfast in the guests of a lab: a controller in each of the first guests, a node in each.
// Its data is below /var/lib/holdfast; its logs are those of the jobs "controller" and "node". Raft and
// the API are on the API network. Nothing is restarted automatically: neither after a kill nor after a
// boot.
type Cluster struct {
	Lab    *Lab
	config ClusterConfig
	mu     sync.Mutex
	jobs   map[string]*Job
	conns  map[string]*grpc.ClientConn
	// forwards are where this host reaches the controllers' API through a guest.
	forwards *forwards
}

// NewCluster issues the certificates and copies them into the guests, which must run. It starts no
// process. There is one cluster in a lab.
func (l *Lab) NewCluster(ctx context.Context, config ClusterConfig) (*Cluster, error) {
	if config.Controllers == 0 {
		config.Controllers = min(3, len(l.guests))
	}
	if config.Nodes == 0 {
		config.Nodes = len(l.guests)
	}
	c := &Cluster{Lab: l, config: config, jobs: map[string]*Job{}, conns: map[string]*grpc.ClientConn{}, forwards: newForwards()}
	if err := c.certificates(ctx); err != nil {
		return nil, fmt.Errorf("make certificates for lab %d: %w", l.Number, err)
	}
	l.mu.Lock()
	l.cluster = c
	l.mu.Unlock()
	return c, l.forEachGuest(func(g *Guest) error { return c.setUp(ctx, g) })
}

func (c *Cluster) setUp(ctx context.Context, g *Guest) error {
	if err := c.copyCertificates(ctx, g); err != nil {
		return err
	}
	if c.config.Setup == "" || g.Index > c.config.Nodes {
		return nil
	}
	out, code, err := g.Exec(ctx, c.config.Setup)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, out)
	}
	if err != nil {
		return fmt.Errorf("set up %s: %w", g.Name(), err)
	}
	return nil
}

// Start starts all processes and returns when the cluster is ready: all controllers vote,
// all nodes are reachable.
func (c *Cluster) Start(ctx context.Context) error {
	err := c.Lab.forEachGuest(func(g *Guest) error { return c.StartGuest(ctx, g.Index) })
	if err != nil {
		return err
	}
	return c.AwaitReady(ctx)
}

// StartGuest starts what runs in a guest, as its service manager would after a boot.
func (c *Cluster) StartGuest(ctx context.Context, i int) error {
	if i <= c.config.Controllers {
		if err := c.StartController(ctx, i); err != nil {
			return err
		}
	}
	if i <= c.config.Nodes {
		return c.StartNode(ctx, i)
	}
	return nil
}

// BootGuest boots a guest and starts what runs in it.
func (c *Cluster) BootGuest(ctx context.Context, i int) error {
	if err := c.Lab.Guest(i).Boot(ctx); err != nil {
		return err
	}
	return c.StartGuest(ctx, i)
}

// StartController starts the controller of a guest.
func (c *Cluster) StartController(ctx context.Context, i int) error {
	return c.start(ctx, i, "controller", c.controllerArgs(i))
}

// StartNode starts the node of a guest.
func (c *Cluster) StartNode(ctx context.Context, i int) error {
	return c.start(ctx, i, "node", c.nodeArgs(i))
}

func (c *Cluster) start(ctx context.Context, i int, what string, argv []string) error {
	job, err := c.Lab.Guest(i).Start(ctx, what, nil, argv...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs[key(what, i)] = job
	return nil
}

func key(what string, i int) string { return fmt.Sprintf("%s %d", what, i) }

// Controller is the controller process of a guest as it was last started, nil before.
func (c *Cluster) Controller(i int) *Job { return c.job("controller", i) }

// Node is the node process of a guest as it was last started, nil before.
func (c *Cluster) Node(i int) *Job { return c.job("node", i) }

func (c *Cluster) job(what string, i int) *Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[key(what, i)]
}

// KillController kills the controller of a guest with SIGKILL and waits for its end.
func (c *Cluster) KillController(ctx context.Context, i int) error {
	return kill(ctx, c.Controller(i))
}

// KillNode kills the node of a guest with SIGKILL and waits for its end.
func (c *Cluster) KillNode(ctx context.Context, i int) error { return kill(ctx, c.Node(i)) }

func kill(ctx context.Context, j *Job) error {
	if err := j.Kill(ctx); err != nil {
		return err
	}
	_, err := j.Wait(ctx)
	return err
}

func (c *Cluster) address(i int, port string) string {
	return net.JoinHostPort(c.Lab.IP(API, i), port)
}

// Endpoints are the API addresses of the controllers.
func (c *Cluster) Endpoints() []string {
	var all []string
	for i := 1; i <= c.config.Controllers; i++ {
		all = append(all, c.address(i, apiPort))
	}
	return all
}

func (c *Cluster) controllerArgs(i int) []string {
	argv := []string{"/usr/sbin/holdfast", "controller", "--name", controllerName(i), "--data-dir", "/var/lib/holdfast/controller",
		"--raft-listen", c.address(i, raftPort), "--api-listen", c.address(i, apiPort), "--csi-endpoint", "unix://" + ControllerSocket,
		"--wal-segment-size", "4194304", "--disk-reserve", "4194304", "--disk-guard", "16777216"}
	if i == 1 {
		argv = append(argv, "--bootstrap")
	} else {
		for other := 1; other <= c.config.Controllers; other++ {
			if other != i {
				argv = append(argv, "--join", c.address(other, raftPort))
			}
		}
	}
	argv = append(append(argv, certificate(controllerRole)...), c.config.ControllerArgs...)
	if c.config.ControllerArgsOf != nil {
		argv = append(argv, c.config.ControllerArgsOf(c.Lab.Guest(i))...)
	}
	return argv
}

func (c *Cluster) nodeArgs(i int) []string {
	g := c.Lab.Guest(i)
	argv := []string{"/usr/sbin/holdfast", "node", "--node-id", g.Name(), "--data-dir", "/var/lib/holdfast/node",
		"--csi-endpoint", "unix://" + NodeSocket, "--min-free", "16MiB"}
	if c.config.Pool != "" {
		argv = append(argv, "--pool", c.config.Pool)
	} else {
		argv = append(argv, "--pool-dir", "/var/lib/holdfast/pool")
	}
	for _, endpoint := range c.Endpoints() {
		argv = append(argv, "--endpoints", endpoint)
	}
	argv = append(append(argv, certificate(nodeRole)...), c.config.NodeArgs...)
	if c.config.NodeArgsOf != nil {
		argv = append(argv, c.config.NodeArgsOf(g)...)
	}
	return argv
}

func controllerName(i int) string { return fmt.Sprintf("c%d", i) }

// ControllerCSI connects to the CSI socket of a guest's controller, through the agent and so over the
// management network. The lab closes it.
func (c *Cluster) ControllerCSI(i int) (*grpc.ClientConn, error) {
	return c.dialCSI(i, ControllerSocket)
}

// NodeCSI connects to the CSI socket of a guest's node.
func (c *Cluster) NodeCSI(i int) (*grpc.ClientConn, error) { return c.dialCSI(i, NodeSocket) }

func (c *Cluster) dialCSI(i int, path string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held := c.conns[key(path, i)]; held != nil {
		return held, nil
	}
	conn, err := c.Lab.Guest(i).GRPC(path)
	if err == nil {
		c.conns[key(path, i)] = conn
	}
	return conn, err
}

// Close closes the connections, which the end of the lab does too. The processes continue.
func (c *Cluster) Close() {
	c.forwards.close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, conn := range c.conns {
		_ = conn.Close() // no call on it is awaited
		delete(c.conns, name)
	}
}
