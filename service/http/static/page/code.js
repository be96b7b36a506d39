// The question as code: for a shell, for the Python client and for the TypeScript client.

import { byId, choice } from "./elements.js";
import { fields } from "./filter.js";
import { call, isComplete } from "./question.js";
import { key, query } from "./service.js";

const language = choice("language", show);
const address = () => new URL(".", location.href).href.replace(/\/$/, "");

const given = (values) => Object.entries(values).filter(([, value]) => value !== "" && value !== null && value !== undefined && value.length !== 0);
// What JSON writes is a literal of all three languages.
const literal = JSON.stringify;

const WRITE = {
  curl({ path, values }) {
    const url = `${address()}/${path}${query(values)}`.replaceAll("'", "%27");
    const secret = key() === null ? "" : ` \\\n  -H "X-API-Key: $BUDGETREC_KEY"`;
    return `curl -s '${url}'${secret}`;
  },
  python({ path, values }) {
    const options = key() === null ? "" : ', key=os.environ["BUDGETREC_KEY"]';
    const named = given(values).map(([name, value]) => `        ${name}=${literal(value)},\n`);
    return `${key() === null ? "" : "import os\n\n"}from budgetrec_client import Client

with Client(${literal(address())}${options}) as client:
    answer = client.${path}(
${named.join("")}    )
    for item in answer["items"]:
        print(item["item_id"], item["score"])`;
  },
  typescript({ path, values }) {
    const options = key() === null ? "" : ', { key: process.env.BUDGETREC_KEY ?? "" }';
    const named = given(values).map(([name, value]) => `  ${name}: ${literal(value)},\n`);
    return `import { Client } from "budgetrec";

const client = new Client(${literal(address())}${options});
const answer = await client.${path}({
${named.join("")}});
for (const item of answer.items) console.log(item.item_id, item.score);`;
  },
};

/** Show the question of now. */
export function show() {
  byId("code").textContent = isComplete() ? WRITE[language.value](call(undefined, fields())) : "";
  byId("copy").disabled = !isComplete();
  byId("copied").textContent = "";
}

byId("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("code").textContent);
    byId("copied").textContent = "Copied.";
  } catch {
    // Not allowed, or a page without TLS: select it, so that Ctrl+C does it.
    getSelection().selectAllChildren(byId("code"));
    byId("copied").textContent = "Selected: copy it with the keyboard.";
  }
});
