package dsqlsim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// These are constants of the SigV4 query form. A token lives for a week at most, and a clock may be five minutes fast
// (AWS, "Authenticating requests: query parameters").
const (
	sigAlgorithm   = "AWS4-HMAC-SHA256"
	sigService     = "dsql"
	sigTimeFormat  = "20060102T150405Z"
	maxTokenLife   = 7 * 24 * time.Hour
	maxClockSkew   = 5 * time.Minute
	adminRole      = "admin"
	emptyBodyHash  = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	maxTokenLength = 16 << 10
)

// tokenVerifier verifies tokens. A token is a presigned GET request for https://<host>/ without the scheme, with or
// without the slash. The verifier computes the signature itself, without the SDK that clients use.
type tokenVerifier struct {
	endpoint, region               string
	accessKey, secret, securityKey string
}

func newTokenVerifier(c *Config) tokenVerifier {
	return tokenVerifier{
		endpoint: c.Endpoint, region: c.region(),
		accessKey: c.AccessKeyID, secret: c.SecretAccessKey, securityKey: c.SessionToken,
	}
}

// requiredAction returns the IAM action that a token must allow for a role.
func requiredAction(role string) string {
	if role == adminRole {
		return "DbConnectAdmin"
	}
	return "DbConnect"
}

// credentialValue returns the X-Amz-Credential of a token of that date: the access key and the scope.
func (v *tokenVerifier) credentialValue(date string) string {
	return v.accessKey + "/" + date + "/" + v.region + "/" + sigService + "/aws4_request"
}

// verifyToken returns nil if the token lets role connect at the time that parameter now gives.
func (v *tokenVerifier) verifyToken(token, role string, now time.Time) error {
	host, rest, ok := strings.Cut(token, "?")
	if !ok || len(token) > maxTokenLength {
		return wrapReason("not a token", accessDenied)
	}
	query, err := url.ParseQuery(rest)
	if err != nil {
		return wrapReason("not a token", accessDenied)
	}
	if strings.TrimSuffix(host, "/") != v.endpoint {
		return wrapReason("host", accessDenied)
	}
	if wrong := v.checkScope(query, role); wrong != "" {
		return wrapReason(wrong, accessDenied)
	}
	signed, err := time.Parse(sigTimeFormat, query.Get("X-Amz-Date"))
	if err != nil {
		return wrapReason("date", accessDenied)
	}
	if !hmac.Equal([]byte(query.Get("X-Amz-Signature")), []byte(v.expectedSignature(query, signed))) {
		return wrapReason("signature", accessDenied)
	}
	// The lifetime is checked last, so that only a token with a valid signature gets a hint about its age.
	return v.checkLifetime(query, signed, now)
}

// checkScope returns the first query parameter of the token that does not fit the endpoint, role or key, "" if all fit.
func (v *tokenVerifier) checkScope(query url.Values, role string) string {
	date, _, _ := strings.Cut(query.Get("X-Amz-Date"), "T")
	for _, want := range []struct{ parameter, value string }{
		{"Action", requiredAction(role)},
		{"X-Amz-Algorithm", sigAlgorithm},
		{"X-Amz-Credential", v.credentialValue(date)},
		{"X-Amz-SignedHeaders", "host"},
		{"X-Amz-Security-Token", v.securityKey},
	} {
		if query.Get(want.parameter) != want.value {
			return want.parameter
		}
	}
	return ""
}

func (v *tokenVerifier) checkLifetime(query url.Values, signed, now time.Time) error {
	seconds, err := strconv.Atoi(query.Get("X-Amz-Expires"))
	life := time.Duration(seconds) * time.Second
	if err != nil || life <= 0 || life > maxTokenLife {
		return wrapReason("X-Amz-Expires", accessDenied)
	}
	if signed.After(now.Add(maxClockSkew)) {
		return wrapReason("signed in the future", accessDenied)
	}
	if end := signed.Add(life); now.After(end) {
		return wrapReason("expired", expiredToken(end.Format(sigTimeFormat)+" is now earlier than "+now.UTC().Format(sigTimeFormat)))
	}
	return nil
}

// expectedSignature returns the signature that the holder of the secret key makes for this query.
func (v *tokenVerifier) expectedSignature(query url.Values, signed time.Time) string {
	canonical := "GET\n/\n" + canonicalQuery(query) + "\nhost:" + v.endpoint + "\n\nhost\n" + emptyBodyHash
	hash := sha256.Sum256([]byte(canonical))
	day := signed.Format("20060102")
	toSign := sigAlgorithm + "\n" + signed.Format(sigTimeFormat) + "\n" +
		strings.TrimPrefix(v.credentialValue(day), v.accessKey+"/") + "\n" + hex.EncodeToString(hash[:])
	key := []byte("AWS4" + v.secret)
	for _, part := range []string{day, v.region, sigService, "aws4_request", toSign} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}

// canonicalQuery returns the sorted query without its signature, in the encoding of SigV4.
func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		if name == "X-Amz-Signature" {
			continue
		}
		for _, value := range values {
			pairs = append(pairs, escapeQuery(name)+"="+escapeQuery(value))
		}
	}
	sort.Strings(pairs)
	return strings.Join(pairs, "&")
}

// escapeQuery is url.QueryEscape, but with %20 for a space.
func escapeQuery(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// SignToken signs a token as the AWS SDKs do, for users without a token.
func SignToken(c *Config, role string, signed time.Time, life time.Duration) string {
	v := newTokenVerifier(c)
	query := url.Values{
		"Action":              {requiredAction(role)},
		"X-Amz-Algorithm":     {sigAlgorithm},
		"X-Amz-Credential":    {v.credentialValue(signed.UTC().Format("20060102"))},
		"X-Amz-Date":          {signed.UTC().Format(sigTimeFormat)},
		"X-Amz-Expires":       {strconv.Itoa(int(life.Seconds()))},
		"X-Amz-SignedHeaders": {"host"},
	}
	if v.securityKey != "" {
		query.Set("X-Amz-Security-Token", v.securityKey)
	}
	return v.endpoint + "/?" + canonicalQuery(query) + "&X-Amz-Signature=" + v.expectedSignature(query, signed.UTC())
}
