// A real OpenID Connect provider for tests: anybody logs in with any password.
//
//     node provider.mjs ISSUER REDIRECT_ADDRESS
//
// It prints "ready" when it answers, reads commands from its standard input, and ends with it:
// "block NAME" says that somebody may not log in any more.

import { generateKeyPairSync } from "node:crypto";
import { createInterface } from "node:readline";

import Provider from "oidc-provider";

const [issuer, redirect] = process.argv.slice(2);
const blocked = new Set();

const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "desk",
      client_secret: "a secret+of/the=desk",
      redirect_uris: [redirect],
      grant_types: ["authorization_code", "refresh_token"],
    },
    {
      client_id: "other",
      client_secret: "a secret of another program",
      redirect_uris: [redirect],
    },
  ],
  jwks: { keys: [{ ...privateKey.export({ format: "jwk" }), use: "sig", alg: "RS256" }] },
  claims: {
    openid: ["sub", "sid"],
    profile: ["name"],
    email: ["email", "email_verified"],
    groups: ["groups"],
  },
  features: { revocation: { enabled: true } },
  cookies: { keys: ["a key of the provider's cookies"] },
  pkce: { required: () => true },
  // The provider refuses to call addresses of this machine, where the desk of the tests is.
  fetch: (url, options) => globalThis.fetch(url, { ...options, dispatcher: undefined }),
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed("refresh_token"),
  findAccount: async (_ctx, name) =>
    blocked.has(name)
      ? undefined
      : {
          accountId: name,
          claims: async () => ({
            sub: name,
            name: `${name} of the team`,
            email: `${name}@example.com`,
            email_verified: name !== "eve",
            groups: ["support"],
          }),
        },
});

createInterface({ input: process.stdin })
  .on("line", (line) => {
    blocked.add(line.replace("block ", ""));
    console.log("done");
  })
  .on("close", () => process.exit(0));

provider.listen(Number(new URL(issuer).port), "127.0.0.1", () => console.log("ready"));
