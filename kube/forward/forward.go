// Package forward reaches ports of pods from a person's machine, through the API server, as kubectl port-forward does.
package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Pod is one pod and the ports of it that are meant.
type Pod struct {
	Namespace, Name string
	Ports           []uint16
}

// retryDelay is between two attempts to reach a pod again.
const retryDelay = time.Second

// Open forwards the pod's ports to free ones of this machine's loopback until ctx ends, and answers their addresses in the
// order of Pod.Ports. They stay the same when the pod is replaced by another one of its name: what connects meanwhile is refused. Nobody else
// on this machine is kept from them: what listens there must ask for a certificate.
func Open(ctx context.Context, config *rest.Config, pod Pod) ([]string, error) {
	f, err := begin(ctx, config, pod, make([]uint16, len(pod.Ports)))
	if err != nil {
		return nil, fmt.Errorf("forward ports of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	go keep(ctx, config, pod, f)
	var all []string
	for _, port := range f.local {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	}
	return all, nil
}

// forwarding is one connection to a pod.
type forwarding struct {
	local []uint16
	ended <-chan error
}

// begin forwards to these local ports; 0 is a free one.
func begin(ctx context.Context, config *rest.Config, pod Pod, local []uint16) (f forwarding, err error) {
	ready, ended := make(chan struct{}), make(chan error, 1)
	forwarder, err := newForwarder(config, pod, local, ctx.Done(), ready)
	if err != nil {
		return f, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return f, errors.Join(err, ctx.Err())
	case <-ready:
	}
	f.ended = ended
	ports, err := forwarder.GetPorts()
	for _, port := range ports {
		f.local = append(f.local, port.Local)
	}
	return f, err
}

// keep forwards to the same local ports again, whenever the connection ends, until ctx does.
func keep(ctx context.Context, config *rest.Config, pod Pod, f forwarding) {
	for local := f.local; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case why := <-f.ended:
			_ = why // whatever it was, the pod may be back
			f = resume(ctx, config, pod, local)
		}
	}
}

// resume tries until there is a connection, or ctx ends.
func resume(ctx context.Context, config *rest.Config, pod Pod, local []uint16) (f forwarding) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(retryDelay):
			if f, err := begin(ctx, config, pod, local); err == nil {
				return f
			}
		}
	}
	return f
}

// newForwarder prefers websockets, and takes SPDY of an API server or a proxy that has no more than that.
func newForwarder(config *rest.Config, pod Pod, local []uint16, stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
	streaming := rest.CopyConfig(config)
	streaming.Timeout = 0 // a forwarded connection lasts
	client, err := kubernetes.NewForConfig(streaming)
	if err != nil {
		return nil, err
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(pod.Namespace).Name(pod.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(streaming)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	overWebsocket, err := portforward.NewSPDYOverWebsocketDialer(url, streaming)
	if err != nil {
		return nil, err
	}
	dialer := portforward.NewFallbackDialer(overWebsocket, overSPDY, func(error) bool { return true })
	return portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, pod.pairs(local), stop, ready, io.Discard, io.Discard)
}

// pairs are the ports as they are forwarded.
func (p Pod) pairs(local []uint16) (all []string) {
	for i, port := range p.Ports {
		all = append(all, fmt.Sprintf("%d:%d", local[i], port))
	}
	return all
}
