package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// makeSecrets writes every certificate, key and kubeconfig of the cluster, unless they are there.
func (c Config) makeSecrets() error {
	if _, err := os.Stat(c.pki("complete")); err == nil {
		return nil
	}
	ca, err := newAuthority(filepath.Join(c.Dir, "pki"), "ca")
	if err != nil {
		return err
	}
	for file, s := range c.subjects() {
		err = errors.Join(err, ca.issue(file, s))
	}
	key, failed := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err, failed); err != nil {
		return err
	}
	if err := errors.Join(ca.writeKey("service-account.key", key), c.makeFrontProxy()); err != nil {
		return err
	}
	for user := range c.subjects() {
		err = errors.Join(err, c.writeKubeconfig(user))
	}
	return errors.Join(err, os.WriteFile(c.pki("complete"), nil, 0o600))
}

// makeFrontProxy makes what the API server proves itself with to API servers behind it.
func (c Config) makeFrontProxy() error {
	ca, err := newAuthority(filepath.Join(c.Dir, "pki"), "front-proxy-ca")
	if err != nil {
		return err
	}
	return ca.issue("front-proxy-client", subject{name: "front-proxy-client"})
}

// subjects are those of the cluster's certificates by the names of their files.
func (c Config) subjects() map[string]subject {
	all := map[string]subject{
		"apiserver": {name: "kube-apiserver", hosts: []string{
			Control, kubernetesOwn, "127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
			"kubernetes.default.svc." + clusterDomain,
		}},
		"apiserver-kubelet-client": {name: "kube-apiserver-kubelet-client", groups: []string{"system:masters"}},
		"admin":                    {name: "admin", groups: []string{"system:masters"}},
		"controller-manager":       {name: "system:kube-controller-manager", hosts: []string{"127.0.0.1"}},
		"scheduler":                {name: "system:kube-scheduler", hosts: []string{"127.0.0.1"}},
		"proxy":                    {name: "system:kube-proxy"},
		"coredns":                  {name: "coredns"},
		certManager:                certManagerUser,
	}
	for n := 1; n <= c.all(); n++ {
		name := NodeName(n)
		all[name] = subject{name: "system:node:" + name, groups: []string{"system:nodes"}, hosts: []string{name, address(n)}}
	}
	return all
}

func (c Config) writeKubeconfig(user string) error {
	config := api.NewConfig()
	config.Clusters["holdfast"] = &api.Cluster{Server: apiServer, CertificateAuthority: c.pki("ca.crt")}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificate: c.pki(user + ".crt"), ClientKey: c.pki(user + ".key")}
	config.Contexts["holdfast"] = &api.Context{Cluster: "holdfast", AuthInfo: user}
	config.CurrentContext = "holdfast"
	return clientcmd.WriteToFile(*config, c.Kubeconfig(user))
}
