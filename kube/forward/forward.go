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

// Open forwards the pod's ports to free ones of this machine's loopback until ctx ends, and answers their addresses in the
// order of Pod.Ports. Nobody else on this machine is kept from them: what listens there must ask for a certificate.
func Open(ctx context.Context, config *rest.Config, pod Pod) ([]string, error) {
	ready := make(chan struct{})
	forwarder, err := newForwarder(config, pod, ctx.Done(), ready)
	if err != nil {
		return nil, fmt.Errorf("forward ports of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case err := <-ended:
		return nil, fmt.Errorf("forward ports of pod %s/%s: %w", pod.Namespace, pod.Name, errors.Join(err, ctx.Err()))
	case <-ready:
		return addresses(forwarder)
	}
}

func addresses(forwarder *portforward.PortForwarder) (all []string, err error) {
	ports, err := forwarder.GetPorts()
	for _, port := range ports {
		all = append(all, net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port.Local))))
	}
	return all, err
}

// newForwarder prefers websockets, and takes SPDY of an API server or a proxy that has no more than that.
func newForwarder(config *rest.Config, pod Pod, stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
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
	return portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, pod.pairs(), stop, ready, io.Discard, io.Discard)
}

// pairs are the ports as they are forwarded: each from a free one.
func (p Pod) pairs() (all []string) {
	for _, port := range p.Ports {
		all = append(all, fmt.Sprintf("0:%d", port))
	}
	return all
}
